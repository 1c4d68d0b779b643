package resolve

import (
	"fmt"

	"github.com/spf13/pflag"

	"sluice.dev/internal/cli/command"
	"sluice.dev/requester/contentstore"
)

// StoreFlags name the store for content that is too large for a request.
type StoreFlags struct {
	Store, storeCredentials string
	StorePlainHTTP          bool
}

// AddStore adds the flags. The doc is that of --store.
func (f *StoreFlags) AddStore(fs *pflag.FlagSet, doc string) {
	fs.StringVar(&f.Store, "store", "", doc)
	fs.StringVar(&f.storeCredentials, "store-credentials", "", "file with credentials for --store: config.json of Docker, or the Secret key .dockerconfigjson as a file")
	fs.BoolVar(&f.StorePlainHTTP, "store-plain-http", false, "use the registry of --store without TLS if it has none")
}

// Open returns the store; it does not contact it.
func (f *StoreFlags) Open() (*contentstore.Store, error) {
	o := contentstore.Options{PlainHTTP: f.StorePlainHTTP}
	if f.storeCredentials != "" {
		text, err := command.ReadFileBounded(f.storeCredentials)
		if err != nil {
			return nil, fmt.Errorf("--store-credentials: %w", err)
		}
		if o.Credentials, err = contentstore.ParseCredentials(text); err != nil {
			return nil, fmt.Errorf("--store-credentials %s: %w", f.storeCredentials, err)
		}
	}
	s, err := contentstore.New(f.Store, o)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	return s, nil
}
