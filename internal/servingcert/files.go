package servingcert

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// An operator may have cert-manager, or another program, make the certificate. Then it is in files that change while the process
// runs.

// Files is a certificate that somebody else keeps in a folder, as tls.crt and tls.key: a mounted Secret of cert-manager's,
// for example. It is read anew when the file of the certificate changes.
type Files struct {
	Dir string
	Log *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
	size    int64
}

// Get is for tls.Config.GetCertificate. Where the files cannot be read any more the last ones that could stay in use; the
// error says that none could.
func (f *Files) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := filepath.Join(f.Dir, "tls.crt")
	info, err := os.Stat(name)
	if err == nil && f.current != nil && info.ModTime().Equal(f.changed) && info.Size() == f.size {
		return f.current, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(name, filepath.Join(f.Dir, "tls.key"))
	}
	switch {
	case err == nil:
		f.current, f.changed, f.size = &pair, info.ModTime(), info.Size()
	case f.current == nil:
		return nil, fmt.Errorf("no certificate: %w", err)
	default:
		f.Log.Error("the certificate cannot be read; the last one stays in use", "error", err)
	}
	return f.current, nil
}
