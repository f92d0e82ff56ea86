package runner

import (
	"errors"
	"fmt"
	"os"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// maxMessageBytes is an upper bound for CRIU's messages.
const maxMessageBytes = 64 << 10

// socketPair returns phosd's nonblocking end and CRIU's blocking end of a connection.
func socketPair() (near, far *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	// With a nonblocking end, Close interrupts a Read. CRIU expects its own end to block.
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("socketpair: %w", err), unix.Close(pair[0]), unix.Close(pair[1]))
	}
	return os.NewFile(uintptr(pair[0]), "criu"), os.NewFile(uintptr(pair[1]), "criu"), nil
}

// converse sends the request and answers notifications until CRIU has sent its result.
func (r *Request) converse(socket *os.File) (*rpc.CriuResp, error) {
	message := &rpc.CriuReq{Type: &r.Type, Opts: r.options(), Features: r.Features}
	for {
		response, err := exchange(socket, message)
		if err != nil {
			return nil, err
		}
		if response.GetType() != rpc.CriuReqType_NOTIFY {
			return response, r.check(response)
		}
		err = r.notify(response.GetNotify())
		message = &rpc.CriuReq{Type: rpc.CriuReqType_NOTIFY.Enum(), NotifySuccess: proto.Bool(err == nil)}
		if err != nil {
			refuse(socket, message)
			return nil, err
		}
	}
}

// refuse reports a failed notification to CRIU and lets it clean up.
func refuse(socket *os.File, message *rpc.CriuReq) {
	for {
		response, err := exchange(socket, message)
		if err != nil || response.GetType() != rpc.CriuReqType_NOTIFY {
			return
		}
	}
}

// notify passes CRIU's notification to the request's function, if there is one.
func (r *Request) notify(notice *rpc.CriuNotify) error {
	if r.Notify == nil {
		return nil
	}
	return r.Notify(notice.GetScript(), int(notice.GetPid()))
}

// check returns an error unless the response is a success.
func (r *Request) check(response *rpc.CriuResp) error {
	if response.GetSuccess() && response.GetType() == r.Type {
		return nil
	}
	var reason string
	if number := response.GetCrErrno(); number != 0 {
		reason = ": " + unix.Errno(number).Error()
	}
	return fmt.Errorf("CRIU failed to %s%s", verb(r.Type), reason)
}

// verb names a request in an error.
func verb(request rpc.CriuReqType) string {
	switch request {
	case rpc.CriuReqType_DUMP:
		return "dump"
	case rpc.CriuReqType_SINGLE_PRE_DUMP:
		return "pre-dump"
	case rpc.CriuReqType_RESTORE:
		return "restore"
	case rpc.CriuReqType_CHECK:
		return "work on this machine"
	default:
		return request.String()
	}
}

// exchange sends a message and waits for the response.
func exchange(socket *os.File, message *rpc.CriuReq) (*rpc.CriuResp, error) {
	bytes, err := proto.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("CRIU: %w", err)
	}
	if _, err := socket.Write(bytes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAborted, err)
	}
	answer := make([]byte, maxMessageBytes)
	n, err := socket.Read(answer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAborted, err)
	}
	response := new(rpc.CriuResp)
	if err := proto.Unmarshal(answer[:n], response); err != nil {
		return nil, fmt.Errorf("response of CRIU: %w", err)
	}
	return response, nil
}
