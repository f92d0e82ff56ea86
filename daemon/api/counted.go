package api

import (
	"net"
	"sync"
	"time"
)

// refusedTime is how long a refused connection stays open, so that the client receives the reason.
const refusedTime = 5 * time.Second

// CountedConn is a connection that its server counts.
type CountedConn struct {
	*net.UnixConn
	// Closed is called once, after the connection is closed. Close may wait: a peer can send files
	// with its bytes, and decides how long their close takes, in the thread that reads.
	Closed func()

	refused error // the error of every request on a refused connection; else nil
	once    sync.Once
}

// Refuse makes every request fail with a reason, and closes the connection after refusedTime. It
// must be called before the connection is used.
func (c *CountedConn) Refuse(reason error) {
	c.refused = reason
	time.AfterFunc(refusedTime, func() { _ = c.Close() })
}

// Close closes the connection.
func (c *CountedConn) Close() error {
	err := c.UnixConn.Close()
	c.once.Do(c.Closed)
	return err
}

// refused is the credentials.AuthInfo of a refused connection.
type refused struct{ reason error }

// AuthType implements credentials.AuthInfo.
func (refused) AuthType() string { return "unix peer, refused" }
