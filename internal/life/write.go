package life

// How are generated files written? All or none, each by a rename, so that a build that runs meanwhile never
// sees half of one.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// outFile is an output file of a project.
type outFile struct {
	path string // relative to the working directory
	data []byte
}

// Outputs are the files of a project: the path relative to the working directory, and the content.
type Outputs []outFile

// NewOutputs is one file.
func NewOutputs(path string, data []byte) Outputs { return Outputs{{path, data}} }

// Each calls f for each file that differs from its wanted content, with its path, its content (nil if it does not exist), and the
// wanted content.
func (o Outputs) Each(f func(path string, old, want []byte)) error {
	for _, x := range o {
		old, err := os.ReadFile(x.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err != nil || !bytes.Equal(old, x.data) {
			f(x.path, old, x.data)
		}
	}
	return nil
}

// Write replaces the files that differ from their wanted content, and returns their paths. It replaces each file atomically. If one
// cannot be written, Write restores those before it, so that either all files are new or none is.
func (o Outputs) Write() (changed []string, err error) {
	var todo Outputs
	var old [][]byte
	if err := o.Each(func(path string, was, want []byte) {
		todo, old = append(todo, outFile{path, want}), append(old, was)
	}); err != nil {
		return nil, err
	}
	staged := make([]string, 0, len(todo))
	defer func() {
		for _, s := range staged {
			_ = os.Remove(s) // it was moved, or is not needed
		}
	}()
	for i := range todo {
		x := &todo[i]
		if x.path, err = linkTarget(x.path); err != nil {
			return nil, err
		}
		s, err := stageFile(*x)
		if err != nil {
			return nil, err
		}
		staged = append(staged, s)
	}
	for i, x := range todo {
		if err := os.Rename(staged[i], x.path); err != nil {
			return nil, errors.Join(err, putBack(todo[:i], old[:i]))
		}
		changed = append(changed, x.path)
	}
	return changed, nil
}

// linkTarget is the file that a path leads to. A link stays, and its target is replaced, even if the target does not exist yet.
func linkTarget(path string) (string, error) {
	const most = 40 // as many as Linux follows
	start := path
	for range most {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // it is no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: the links go round in a circle", start)
}

// stageFile writes the content to a file beside the one that it will replace.
func stageFile(x outFile) (name string, err error) {
	dir := filepath.Dir(x.path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a folder of source code
		return "", err
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(x.path); err == nil {
		if info.IsDir() {
			return "", fmt.Errorf("%s is a folder, but a file has to be written there", x.path)
		}
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(dir, ".sluice-*")
	if failed, ok := errors.AsType[*os.PathError](err); ok {
		return "", fmt.Errorf("write %s: %w", x.path, failed.Err)
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(x.data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says why
		return "", err
	}
	return f.Name(), nil
}

// putBack restores the replaced files.
func putBack(files Outputs, old [][]byte) (err error) {
	for i, x := range files {
		if old[i] == nil {
			err = errors.Join(err, os.Remove(x.path))
			continue
		}
		name, e := stageFile(outFile{x.path, old[i]})
		if e == nil {
			e = os.Rename(name, x.path)
		}
		err = errors.Join(err, e)
	}
	return err
}
