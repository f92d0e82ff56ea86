package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// closeTime is how long Close waits for etcd, which waits for requests that are under way.
const closeTime = 10 * time.Second

// Server is an etcd that runs in this process.
type Server struct {
	config Config
	dir    *directory
	fault  *fault
	etcd   *embed.Etcd
	stop   context.CancelFunc // ends streams and the guard
	guards chan struct{}      // closed when the guard has ended
}

// Start starts an etcd, and returns when it serves. One of several members serves when most of them
// run. The error may be ErrInUse, ErrForeign, ErrPublic or ErrDiskFull.
func Start(ctx context.Context, config Config) (*Server, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	dir, err := openDirectory(config.DataDir)
	if err != nil {
		return nil, err
	}
	if err := config.prepare(dir); err != nil {
		return nil, errors.Join(err, dir.close())
	}
	s := &Server{config: config, dir: dir, fault: newFault(), guards: make(chan struct{})}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", config.DataDir, err), dir.close())
	}
	return s, nil
}

// prepare checks what etcd would not: whose data this is, and what is at the paths of the sockets.
func (c *Config) prepare(dir *directory) error {
	found, err := dir.claim(marker{Cluster: c.Cluster, Member: c.Name})
	if err != nil {
		return err
	}
	if found.Joins && c.Members != nil {
		members := *c.Members
		members.Join = true
		c.Members = &members
	}
	if err := prepareSocket(dir.inside(httpName)); err != nil {
		return err
	}
	if c.Socket == "" {
		return nil
	}
	return prepareSocket(c.Socket)
}

// start runs etcd and waits until it serves.
func (s *Server) start(ctx context.Context) error {
	closing, stop := context.WithCancel(context.Background())
	s.stop = stop
	embedded, err := s.config.embedded(streams{closing}.intercept)
	if err != nil {
		stop()
		return err
	}
	embedded.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(s.config.Log, s.fault))
	err = s.fault.run(func() (err error) {
		s.etcd, err = embed.StartEtcd(embedded)
		return err
	})
	if err != nil {
		stop()
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(err, s.closeEtcd())
	}
	go s.guard(closing)
	return nil
}

// awaitReady waits until etcd serves, and makes its socket private.
func (s *Server) awaitReady(ctx context.Context) error {
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-s.etcd.Server.StopNotify():
		return errors.New("it has stopped")
	case <-s.fault.failed:
		return s.fault.err
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.config.Socket == "" {
		return nil
	}
	return os.Chmod(s.config.Socket, 0o600)
}

// Endpoint returns where clients find this etcd: the socket, if it has one.
func (s *Server) Endpoint() string {
	if s.config.Socket != "" {
		return "unix://" + s.config.Socket
	}
	return s.config.Members.ClientURL
}

// Failed is closed when etcd has ended by itself; Err says why.
func (s *Server) Failed() <-chan struct{} { return s.fault.failed }

// Err returns the error of a server that has failed.
func (s *Server) Err() error {
	select {
	case <-s.fault.failed:
		return s.fault.err
	default:
		return nil
	}
}

// Close ends etcd. All that was acknowledged is on the disk.
func (s *Server) Close() error {
	err := s.closeEtcd()
	<-s.guards
	return errors.Join(err, s.dir.close())
}

// closeEtcd ends etcd without the lock on the directory.
func (s *Server) closeEtcd() error {
	s.stop()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.etcd.Close()
	}()
	limit := time.NewTimer(closeTime)
	defer limit.Stop()
	select {
	case <-closed:
		return nil
	case <-limit.C:
		return fmt.Errorf("close etcd in %s: it still runs after %v", s.config.DataDir, closeTime)
	}
}
