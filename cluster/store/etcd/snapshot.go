package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/phos-gpu/phos/cluster/store"
)

// pageSize is a divisor of the size of etcd's database.
const pageSize = 512

// Snapshot writes all of etcd, also what is not below the prefix, and its hash. Package
// cluster/store/etcd/server restores it. What was written before an error is no snapshot. There is
// no time limit once etcd has answered: a connection that no longer does is noticed by pings.
func (s *Store) Snapshot(ctx context.Context, to io.Writer) error {
	if _, err := s.getLeader(ctx); err != nil { // the request itself would wait for a connection
		return fmt.Errorf("snapshot of the store: %w", err)
	}
	checked := &sealed{to: to, sum: sha256.New()}
	err := s.download(ctx, checked)
	switch {
	case err == nil:
		return checked.finish()
	case checked.failed != nil:
		err = checked.failed
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		err = s.meaning(err, "")
	}
	return fmt.Errorf("snapshot of the store: %w", err)
}

// download writes a snapshot.
func (s *Store) download(ctx context.Context, to io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := s.client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(to, from)
	return err
}

// sealed passes a stream on that ends with the hash of what is before.
type sealed struct {
	to     io.Writer
	sum    hash.Hash
	held   []byte // the last bytes, which may be the hash
	bytes  int64  // how many were passed on
	failed error  // of to
}

// Write passes all on but the last bytes.
func (s *sealed) Write(p []byte) (int, error) {
	s.held = append(s.held, p...)
	if ready := len(s.held) - sha256.Size; ready > 0 {
		s.sum.Write(s.held[:ready])
		if _, s.failed = s.to.Write(s.held[:ready]); s.failed != nil {
			return 0, s.failed
		}
		s.bytes += int64(ready)
		s.held = append(s.held[:0], s.held[ready:]...)
	}
	return len(p), nil
}

// finish compares the hash, and passes it on.
func (s *sealed) finish() error {
	if s.bytes == 0 || s.bytes%pageSize != 0 || !bytes.Equal(s.held, s.sum.Sum(nil)) {
		return fmt.Errorf("snapshot of the store: %w: its hash is not that of its %d bytes",
			errors.Join(store.ErrUnavailable, io.ErrUnexpectedEOF), s.bytes)
	}
	if _, err := s.to.Write(s.held); err != nil {
		return fmt.Errorf("snapshot of the store: %w", err)
	}
	return nil
}
