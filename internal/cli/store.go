package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"sluice.dev/requester/contentstore"
)

// storeFlags say where content is that is too large for a request.
type storeFlags struct {
	store, storeCredentials string
	storePlainHTTP          bool
}

func (f *storeFlags) addStore(fs *pflag.FlagSet, doc string) {
	fs.StringVar(&f.store, "store", "", doc)
	fs.StringVar(&f.storeCredentials, "store-credentials", "", "file with credentials for --store: config.json of Docker, or the Secret key .dockerconfigjson as a file")
	fs.BoolVar(&f.storePlainHTTP, "store-plain-http", false, "use the registry of --store without TLS if it has none")
}

// open returns the store; it is not spoken to yet.
func (f *storeFlags) open() (*contentstore.Store, error) {
	o := contentstore.Options{PlainHTTP: f.storePlainHTTP}
	if f.storeCredentials != "" {
		text, err := readFileBounded(f.storeCredentials)
		if err != nil {
			return nil, fmt.Errorf("--store-credentials: %w", err)
		}
		if o.Credentials, err = contentstore.ParseCredentials(text); err != nil {
			return nil, fmt.Errorf("--store-credentials %s: %w", f.storeCredentials, err)
		}
	}
	s, err := contentstore.New(f.store, o)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	return s, nil
}
