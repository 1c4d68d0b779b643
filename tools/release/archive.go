package main

// How are files packed so that two builds give the same bytes? Names are sorted, and all times are that of the
// commit.

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive. A link has a target.
type file struct {
	name    string
	mode    int64
	content []byte
	target  string
}

// sortedFiles puts files in the order that they have in every run.
// The order is that of the names, byte by byte.
func sortedFiles(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// tarOf is a tar of the files; names that end in a slash are folders.
// All headers have the same time and no owner, so that two builds give the same bytes.
func tarOf(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range sortedFiles(files) {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		switch {
		case f.target != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.target
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// tarGzOf is a tar.gz of the files.
// Go's gzip writer puts no time and no name into the header unless it is told to.
func tarGzOf(files []file, at time.Time) ([]byte, error) {
	data, err := tarOf(files, at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// zipOf is a zip of the files.
// Windows has no bits for executables, so modes are left out.
func zipOf(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range sortedFiles(files) {
		part, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at})
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
