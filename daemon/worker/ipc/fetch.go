package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrGone is returned when no session serves a token's grants.
var ErrGone = errors.New("no session exports this memory or event")

// Fetch requests the grant of a token from the exporting session.
func (d Dir) Fetch(kind Kind, token Token) (Grant, error) {
	if token.Exporter == (ID{}) {
		return Grant{}, fmt.Errorf("token without exporter: %w", abi.InvalidHandle) // ErrGone would make Await wait
	}
	conn, err := d.dial(token.Exporter)
	switch {
	case errors.Is(err, ErrGone):
		return Grant{}, fmt.Errorf("%w: %w", ErrGone, abi.InvalidHandle)
	case err != nil:
		return Grant{}, fmt.Errorf("fetch shared memory: %w: %w", err, abi.OperatingSystem)
	}
	defer conn.Close()
	if err := sameUser(conn); err != nil {
		return Grant{}, fmt.Errorf("fetch shared memory: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(talkTime))
	if _, err := conn.Write(request(kind, token.Key)); err != nil {
		return Grant{}, fmt.Errorf("fetch shared memory: %w: %w", err, abi.OperatingSystem)
	}
	return receive(conn, kind)
}

// Await is Fetch, but waits until the exporting session exists: it may be restored at the same time
// as the caller's.
func (d Dir) Await(ctx context.Context, kind Kind, token Token) (Grant, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		g, err := d.Fetch(kind, token)
		if !errors.Is(err, ErrGone) {
			return g, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return g, err
		}
	}
}

// receive reads the reply and its file.
func receive(conn *net.UnixConn, kind Kind) (Grant, error) {
	frame, control := make([]byte, replyBytes+1), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := conn.ReadMsgUnix(frame, control)
	if err != nil {
		return Grant{}, fmt.Errorf("fetch shared memory: %w: %w", err, abi.OperatingSystem)
	}
	files, _ := fdpass.Files(control[:m]) // a reply without its file is refused below
	g, err := parseReply(frame[:n])
	if err == nil && (len(files) != 1 || g.Kind != kind) {
		err = fmt.Errorf("reply does not match the request: %w", abi.InvalidHandle)
	}
	if err != nil {
		fdpass.Close(files)
		return Grant{}, err
	}
	g.File = files[0]
	return g, nil
}

// Alive reports whether a session serves an exporter's grants. It also returns true if it cannot
// tell, for example because no file descriptor is free.
func (d Dir) Alive(exporter ID) bool {
	conn, err := d.dial(exporter)
	if err != nil {
		return !errors.Is(err, ErrGone)
	}
	defer conn.Close()
	err = sameUser(conn)
	return !errors.Is(err, abi.NotPermitted) && !errors.Is(err, proc.ErrGone)
}
