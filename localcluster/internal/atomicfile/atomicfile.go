// Package atomicfile replaces a file in one step, so that neither a reader nor a crash sees half of it. It does not promise that
// the new content survives a power cut: it syncs nothing.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes path hold content, with exactly the given mode. The folder must exist. If Write returns an error, path is unchanged.
func Write(path string, content []byte, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
