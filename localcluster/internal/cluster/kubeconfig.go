package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/localcluster/internal/atomicfile"
	"sluice.dev/localcluster/internal/pki"
)

const clusterName = "localcluster"

// kubeconfig is a file with one cluster and one user, with all keys in it, so that it can be copied.
func kubeconfig(server string, ca, user pki.Pair, userName string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca.CertPEM}
	config.AuthInfos[userName] = &clientcmdapi.AuthInfo{ClientCertificateData: user.CertPEM, ClientKeyData: user.KeyPEM}
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: userName}
	config.CurrentContext = clusterName
	return clientcmd.Write(*config)
}

// writeKubeconfig writes a kubeconfig that a user named. It does not replace a file with other clusters: it may be somebody's
// ~/.kube/config.
func writeKubeconfig(path string, content []byte) error {
	existing, err := os.ReadFile(path) //nolint:gosec // the file that the user names
	if err == nil {
		if !ours(existing) {
			return fmt.Errorf("--kubeconfig: %s exists and was not written by localcluster; remove it or choose another file", path)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := atomicfile.Write(path, content, 0o600); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return nil
}

// removeKubeconfig removes the kubeconfig if nobody has changed it since it was written.
func removeKubeconfig(path string, written []byte) error {
	content, err := os.ReadFile(path) //nolint:gosec // the file that the user names
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(content, written) {
		return nil
	}
	return errors.Join(err, os.Remove(path))
}

// ours reports whether a kubeconfig is empty or knows no cluster but ours.
func ours(content []byte) bool {
	config, err := clientcmd.Load(content)
	if err != nil {
		return false
	}
	for name := range config.Clusters {
		if name != clusterName {
			return false
		}
	}
	return len(config.Clusters) > 0 || len(bytes.TrimSpace(content)) == 0
}
