package rpc

import (
	"net"
	"sync"
)

// CountedConn is a connection that its server keeps count of.
type CountedConn struct {
	*net.UnixConn
	// Refused is what every request gets that needs to know its caller; nil for a connection that is served.
	Refused error
	// Closed is called once, when the connection is closed.
	Closed func()

	once sync.Once
}

// Close closes the connection.
func (c *CountedConn) Close() error {
	c.once.Do(c.Closed)
	return c.UnixConn.Close()
}

// refused is the credentials.AuthInfo of a connection that is not served.
type refused struct{ reason error }

// AuthType is part of the gRPC interface.
func (refused) AuthType() string { return "unix peer, refused" }
