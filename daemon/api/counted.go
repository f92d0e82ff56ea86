package api

import (
	"net"
	"sync"
	"time"
)

// refusedTime is how long a connection that is not served may take to hear why.
const refusedTime = 5 * time.Second

// CountedConn is a connection that its server keeps count of.
type CountedConn struct {
	*net.UnixConn
	// Closed is called once, when the connection is closed.
	Closed func()

	refused error // what every request gets that needs to know its caller; nil for a connection that is served
	once    sync.Once
}

// Refuse has requests answered with a reason, and closes the connection soon. It must not be in use
// yet.
func (c *CountedConn) Refuse(reason error) {
	c.refused = reason
	time.AfterFunc(refusedTime, func() { _ = c.Close() })
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
