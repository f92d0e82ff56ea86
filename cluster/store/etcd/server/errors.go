package server

import "errors"

var (
	// ErrInUse means that another process uses the data directory or listens on the socket.
	ErrInUse = errors.New("in use by another process")
	// ErrForeign means that a data directory belongs to another member, another cluster, or to an etcd
	// that was not started by this package.
	ErrForeign = errors.New("the data belongs to another etcd")
	// ErrPublic means that other users can reach a directory.
	ErrPublic = errors.New("other users have access")
	// ErrDiskFull means that etcd has stopped because it could not write.
	ErrDiskFull = errors.New("the disk is full")
	// ErrSnapshot means that a file is no snapshot, or that it is damaged.
	ErrSnapshot = errors.New("not an intact snapshot")
)
