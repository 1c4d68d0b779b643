package git

import (
	"errors"
	"io/fs"
	"net"
	"os"

	"sluice.dev/resolve"
)

// An error of the resolver is one of three: it is the request's, the server's, or this machine's. Users can mend the first, and not
// the last; so errors of files and processes have a reason of their own, and are transient.

// userErrorFor turns an error into one for the user.
func (g *Resolver) userErrorFor(err error, repo repository) error {
	where := repo.canonicalName()
	var damaged *packError
	var known *resolve.Error
	if local := localFailure(err); local != nil {
		return local
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errDiskFull):
		e := resolve.Transientf("the resolver's disk is full or cannot be written, and there is no other place for what it has to fetch")
		e.Reason = resolve.ReasonLocal
		return e.Because(err)
	case errors.As(err, &damaged):
		return resolve.Errorf(resolve.ReasonFailed, "%s: the server sent objects that git does not take", where).Because(err)
	case errors.Is(err, errCorrupt) || errors.Is(err, errMissing):
		return resolve.Transientf("%s: the server did not send what the commit refers to", where).Because(err)
	}
	return explainRemoteError(err, where)
}

// localFailure returns an error if this machine, its files or its processes are the cause, and not the server; otherwise nil. The
// text omits names of files, because users do not know them.
func localFailure(err error) error {
	if _, remote := errors.AsType[*net.OpError](err); remote || errors.Is(err, errDiskFull) {
		return nil
	}
	var path *fs.PathError
	var link *os.LinkError
	var text string
	switch {
	case errors.As(err, &path):
		text = path.Op + ": " + path.Err.Error()
	case errors.As(err, &link):
		text = link.Op + ": " + link.Err.Error()
	case errors.Is(err, errKilled), errors.Is(err, errNotStarted):
		text = err.Error()
	default:
		return nil
	}
	e := resolve.Transientf("the resolver cannot work with its files or its git command: %s", text)
	e.Reason = resolve.ReasonLocal
	return e.Because(err)
}
