// This file is how one file is opened and locked.

package deadletter

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// file is what is used of an os.File.
type file interface {
	io.Reader
	io.ReaderAt
	io.Writer
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Close() error
	Fd() uintptr
}

// openFile opens a regular file to read and append. Anything else in its place is
// refused, so that nobody who may write to the folder leads the events elsewhere.
func openFile(path string, flags int) (file, error) {
	// With O_RDWR the opening of a pipe does not wait for its other end.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|flags, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("open %s: it is a symbolic link, which is refused", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: it is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lock waits for the flock of f, which ends when f is closed.
func lock(f interface{ Fd() uintptr }) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

// tryLock is lock for who does not wait: it says whether f is now locked.
func tryLock(f interface{ Fd() uintptr }) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
