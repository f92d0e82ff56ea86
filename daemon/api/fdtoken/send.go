package fdtoken

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// answerTime is the timeout of a handoff. It equals gRPC's timeout for a server's first frame.
const answerTime = 20 * time.Second

// Send hands off files at a socket and returns their token, for a request of this same process. The
// files stay open in the caller.
func Send(ctx context.Context, socket string, files []*os.File) (token []byte, err error) {
	return send(ctx, socket, files, answerTime)
}

// send is Send with a timeout.
func send(ctx context.Context, socket string, files []*os.File, timeout time.Duration) (token []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, api.ErrNoAnswer)
	defer cancel()
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, dialError(ctx, socket, err)
	}
	defer dialed.Close()
	conn := dialed.(*net.UnixConn) // the network is "unix"
	// The end of ctx closes the connection, so a peer that neither reads nor answers cannot block the
	// caller.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sent := sendFiles(conn, files)
	// A peer that refuses sends the reason before it closes, so prefer the answer over the write
	// error.
	var refused *api.Error
	if token, err = readAnswer(conn); err != nil && sent != nil && !errors.As(err, &refused) {
		err = sent
	}
	if err != nil {
		return nil, sendError(ctx, socket, err)
	}
	return token, nil
}

// dialError returns the error of a connection that was not made: as api.Dial does if no process
// listens.
func dialError(ctx context.Context, socket string, err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() { // perhaps before ctx knows that its time is over
		return sendError(ctx, socket, api.ErrNoAnswer)
	}
	if ctx.Err() != nil || proc.Unknown(err) {
		return sendError(ctx, socket, err)
	}
	return &api.NoDaemonError{Socket: socket, Err: err}
}

// sendError replaces the error by the context's cause if the context has ended. If the peer has
// closed the connection, the error is api.ErrNoDaemon, as that of any other request.
func sendError(ctx context.Context, socket string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = fmt.Errorf("hand off files at %s: %w", socket, err)
	if fdpass.HungUp(err) {
		return &api.Error{Text: err.Error(), Err: api.ErrNoDaemon}
	}
	return err
}

// sendFiles sends the files in groups.
func sendFiles(conn *net.UnixConn, files []*os.File) error {
	head := binary.LittleEndian.AppendUint32(nil, Magic)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(files)))
	if _, err := conn.Write(head); err != nil {
		return err
	}
	for group := range slices.Chunk(files, groupFiles) {
		descriptors := make([]int, len(group))
		for i, file := range group {
			descriptors[i] = int(file.Fd())
		}
		count := binary.LittleEndian.AppendUint32(nil, uint32(len(group)))
		if _, _, err := conn.WriteMsgUnix(count, unix.UnixRights(descriptors...), nil); err != nil {
			return err
		}
	}
	runtime.KeepAlive(files)
	return nil
}
