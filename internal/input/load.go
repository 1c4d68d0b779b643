package input

import (
	"bytes"
	"context"
	"errors"
	"io"

	"sluice.dev/internal/limit"
)

// Load reads a source. Its errors are of type [*Error], or the context's. The set is returned with [ErrNoCRD] as well,
// so that the caller can tell what was skipped.
func Load(ctx context.Context, src Source, opts Options) (*Set, error) {
	r := &reader{loader: newLoader(src.String()), opts: opts.withDefaults()}
	r.objects = opts.Objects
	var err error
	if r.exclude, err = newExclusion(opts.Exclude); err != nil {
		return nil, err
	}
	switch src.Kind {
	case Stdin:
		err = r.readStdin(ctx)
	case Path:
		err = r.readPaths(ctx, src)
	case Git:
		err = r.readRevision(ctx, src)
	case Cluster:
		err = fileError(src.String(), ErrCluster, "%v", ErrCluster)
	}
	if err != nil {
		return nil, err
	}
	return r.finishSet()
}

// reader reads the files of one source into a set.
type reader struct {
	*loader
	opts Options
	// total is the number of bytes read, entries the number of directory entries.
	total   int64
	entries int
	exclude exclusion
}

func (r *reader) readStdin(ctx context.Context) error {
	if r.opts.Stdin == nil {
		return fileError("-", nil, "there is no standard input")
	}
	return r.readStream(ctx, "-", r.opts.Stdin)
}

// readStream reads and decodes what may block for long: standard input or a pipe.
func (r *reader) readStream(ctx context.Context, name string, in io.Reader) error {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := limit.ReadAll(&contextReader{ctx: ctx, r: in}, r.bytesAllowed())
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case got := <-done:
		return r.decodeContent(ctx, name, got.data, false, got.err)
	}
}

// bytesAllowed returns the number of bytes that the next file may have.
func (r *reader) bytesAllowed() int64 {
	return min(r.opts.MaxFileBytes, r.opts.MaxTotalBytes-r.total)
}

// checkFits refuses a file of the given size if it is over a limit.
func (r *reader) checkFits(name string, size int64) error {
	switch {
	case size > r.opts.MaxFileBytes:
		return fileError(name, ErrTooLarge, "too large: more than %s, the limit for one file", byteSize(r.opts.MaxFileBytes))
	case r.total+size > r.opts.MaxTotalBytes:
		return fileError(name, ErrTooLarge, "too large: with this file the source has more than %s, the limit for all files",
			byteSize(r.opts.MaxTotalBytes))
	}
	return nil
}

// decodeContent decodes what was read from the file called name. below tells that it was found in a directory.
func (r *reader) decodeContent(ctx context.Context, name string, data []byte, below bool, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, limit.ErrTooLarge):
		return r.checkFits(name, r.bytesAllowed()+1)
	case err != nil:
		return fileError(name, err, "cannot be read: %v", systemReason(err))
	}
	r.total += int64(len(data))
	if len(bytes.TrimSpace(data)) == 0 && name == "-" {
		return fileError(name, ErrNoCRD, "standard input is empty")
	}
	if below && r.passTemplate(ctx, name, data) {
		return nil
	}
	r.passPatches = below && r.opts.PassTemplates
	return r.addFile(ctx, name, data)
}
