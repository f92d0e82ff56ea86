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
)

// answerTime is how long nobody needs to take files over, as long as gRPC waits for a first word.
const answerTime = 20 * time.Second

// Send hands files over at a socket and returns the token to name them by in a request of this same
// process. The files stay open here.
func Send(ctx context.Context, socket string, files []*os.File) (token []byte, err error) {
	return send(ctx, socket, files, answerTime)
}

func send(ctx context.Context, socket string, files []*os.File, patience time.Duration) (token []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, api.ErrMute)
	defer cancel()
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("hand files over: %w", err)
	}
	defer dialed.Close()
	conn := dialed.(*net.UnixConn) // the network is "unix"
	// A peer that reads nothing, or answers nothing, is not waited for longer than the caller wants.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sent := sendFiles(conn, files)
	// Who refuses says why before it closes.
	var refused *api.Error
	if token, err = readAnswer(conn); err != nil && sent != nil && !errors.As(err, &refused) {
		err = sent
	}
	if err != nil {
		return nil, sendError(ctx, socket, err)
	}
	return token, nil
}

func sendError(ctx context.Context, socket string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("hand files over at %s: %w", socket, err)
}

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
