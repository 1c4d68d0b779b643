//go:build !unix

package binary

import (
	"errors"
	"os"
)

// tryLock fails: localcluster itself runs on Unix only.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
