package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/internal/linux/namespace"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrAborted is returned when CRIU ended without an answer while it was working. The processes may
// be damaged.
var ErrAborted = errors.New("CRIU ended in the middle of its work")

// User is the account with whose rights CRIU runs. With UID 0 it runs as root.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Request is one run of CRIU.
type Request struct {
	// Program is CRIU's executable.
	Program string
	User    User
	Type    rpc.CriuReqType
	Options *rpc.CriuOpts
	// Features are those that a FEATURE_CHECK asks for.
	Features *rpc.CriuFeatures
	// Images is the directory of the images. CRIU gets the descriptor and sees no path.
	Images *os.File
	// Stdin is the terminal of a shell's job; nil means /dev/null.
	Stdin *os.File
	// Inherited are open in CRIU as Descriptor(0) and the following numbers.
	Inherited []*os.File
	// Namespaces are entered before CRIU is started.
	Namespaces []*os.File
	// Root is the root directory of CRIU in these; nil: that of the mount namespace.
	Root *os.File
	// Group is the directory of the cgroup in which CRIU starts, and so all that it starts; nil: the
	// caller's cgroup.
	Group *os.File
	// Inside, if not nil, reports whether CRIU may be working inside processes. When ctx ends then,
	// CRIU is not killed but made to fail, and gets LeaveTime to leave them. For that this process
	// must ignore SIGXFSZ.
	Inside func() bool
	// Notify is called with the name of each stage that CRIU reaches, and with the root's pid if
	// there is one. An error makes CRIU fail.
	Notify func(script string, pid int) error
}

const (
	socketFD  = 3
	imagesFD  = 4
	programFD = 5
)

// noPlugins is a directory that always exists and holds no library. An installed GPU plugin would
// ask the driver about each process, for seconds and while the program is frozen. phos saves GPU
// state itself.
const noPlugins = "/proc/self/task"

// Descriptor returns the number of an inherited file in CRIU.
func Descriptor(index int) int32 { return int32(programFD + 1 + index) }

// LeaveTime is how long CRIU may take to leave processes by itself. It waits for nothing there.
const LeaveTime = 5 * time.Second

// Run runs CRIU for a request. When ctx ends, CRIU is killed; the error is then ErrAborted, unless
// CRIU could leave the processes by itself.
func Run(ctx context.Context, request Request) (*rpc.CriuResp, error) {
	log, err := newLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	near, far, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("CRIU: %w", err)
	}
	defer near.Close()
	program, err := os.Open(request.Program)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("CRIU: %w", err), far.Close())
	}
	command := request.command(log, far, program)
	var root *os.File
	if slices.ContainsFunc(request.Namespaces, hasMounts) {
		root, err = runInContainer(command, program)
	}
	var gone <-chan struct{}
	if err == nil {
		gone, err = start(command, request.Namespaces, request.Root)
	}
	_, _, _ = far.Close(), program.Close(), root.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", request.Program, err)
	}
	go func() {
		<-gone
		// CRIU's last message can still be read. The deadline is needed because its children may
		// keep the socket open.
		_ = near.SetDeadline(time.Now().Add(drainTime))
	}()
	stop := context.AfterFunc(ctx, func() {
		if request.Inside != nil && request.Inside() {
			// If its writes cannot be denied it may complete: that is better than to be killed.
			_ = DenyWrites(command.Process.Pid, request.User)
			select {
			case <-gone:
				return
			case <-time.After(LeaveTime):
			}
		}
		_ = command.Process.Kill()
		// Its children may keep the socket open.
		_ = near.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	response, err := request.converse(near)
	if err != nil {
		// CRIU may still wait for an answer.
		_ = near.Close()
	}
	ended := command.Wait()
	if err == nil {
		return response, nil
	}
	if signaled(ended) || errors.Is(err, ErrAborted) {
		return nil, because(ErrAborted, reason(ctx, ended), log.suffix())
	}
	if ctx.Err() != nil {
		// CRIU's log says only that its writes failed.
		return nil, because(errCancelled, reason(ctx, nil), "")
	}
	return nil, fmt.Errorf("%w%s", err, log.suffix())
}

// hasMounts reports whether a namespace is one of mounts. In others CRIU's libraries are where they
// are here, and CRIU must not be started by the loader: the kernel does not change the executable
// of a restored process while the process has mapped CRIU's, and each process maps the loader.
func hasMounts(namespace *os.File) bool {
	kind, err := unix.IoctlRetInt(int(namespace.Fd()), unix.NS_GET_NSTYPE)
	return err != nil || kind == unix.CLONE_NEWNS
}

// errCancelled is returned when CRIU left the processes by itself after its context had ended.
var errCancelled = errors.New("CRIU was cancelled")

// because adds the reason, if there is one, and CRIU's errors to err.
func because(err, reason error, suffix string) error {
	if reason == nil {
		return fmt.Errorf("%w%s", err, suffix)
	}
	return fmt.Errorf("%w (%w)%s", err, reason, suffix)
}

// cause is an error with a shorter text.
type cause struct {
	text string
	error
}

func (c cause) Error() string { return c.text }

func (c cause) Unwrap() error { return c.error }

// reason returns why CRIU ended: the cause of ctx, or else the exit status; nil if neither is an
// error.
func reason(ctx context.Context, ended error) error {
	switch why := context.Cause(ctx); {
	case errors.Is(why, context.DeadlineExceeded):
		return cause{"its time was over", why}
	case errors.Is(why, context.Canceled):
		return cause{"cancelled", why}
	case why != nil:
		return why
	}
	return ended
}

// signaled reports whether a process was killed by a signal.
func signaled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// command returns CRIU's command. CRIU stays in the caller's session and process group: a restored
// shell's job inherits them, and cleaning up finds CRIU by them.
//
// The program is started by its descriptor, because the user may not be able to reach its path.
func (r *Request) command(log *log, socket, program *os.File) *exec.Cmd {
	command := exec.Command(proc.OwnFile(programFD), "swrk", fmt.Sprint(socketFD))
	command.Args[0] = r.Program
	command.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "CRIU_LIBS_DIR=" + noPlugins}
	command.Dir = "/"
	command.Stdout, command.Stderr = log.file, log.file
	if r.Stdin != nil {
		command.Stdin = r.Stdin
	}
	images := r.Images
	if images == nil {
		images = log.file
	}
	command.ExtraFiles = append([]*os.File{socket, images, program}, r.Inherited...)
	command.SysProcAttr = &syscall.SysProcAttr{}
	if len(r.Namespaces) == 0 && r.Inside == nil {
		// In another pid namespace CRIU sees no parent and would exit at once. Inside of processes it
		// must not be killed with its parent, which may be killed at any time: it would leave them
		// broken.
		command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if r.Group != nil {
		command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, int(r.Group.Fd())
	}
	if r.User.UID != 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: r.User.UID, Gid: r.User.GID, Groups: r.User.Groups}
		command.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_PTRACE, unix.CAP_SETPCAP}
	}
	return command
}

// drainTime is how long Run reads what CRIU sent before it ended.
const drainTime = time.Second

// start starts a command; gone is closed when its process has ended. It uses a thread of its own:
// Pdeathsig refers to the thread, and a thread that has entered namespaces must not run other
// goroutines.
func start(command *exec.Cmd, namespaces []*os.File, root *os.File) (gone <-chan struct{}, err error) {
	result, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		err := namespace.Enter(namespaces)
		if err == nil && root != nil {
			err = changeRoot(root)
		}
		if err == nil {
			err = command.Start()
		}
		result <- err
		if err != nil {
			return
		}
		// Keep the thread until the process ends.
		_ = unix.Waitid(unix.P_PID, command.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}()
	return ended, <-result
}

// changeRoot makes a directory the root of the calling thread, which has entered a mount namespace.
func changeRoot(root *os.File) error {
	if err := unix.Fchdir(int(root.Fd())); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	return nil
}

// options completes the caller's options.
func (r *Request) options() *rpc.CriuOpts {
	options := r.Options
	if options == nil {
		return nil
	}
	options.ImagesDirFd = proto.Int32(-1)
	options.ImagesDir = proto.String(proc.OwnFile(imagesFD))
	options.LogToStderr = proto.Bool(true)
	options.NotifyScripts = proto.Bool(r.Notify != nil)
	if options.LogLevel == nil {
		options.LogLevel = proto.Int32(warnings)
	}
	if r.User.UID != 0 {
		options.Unprivileged = proto.Bool(true)
	}
	return options
}

// TrackWritten sets an option of the CRIU that phos builds, which go-criu does not know: see
// scripts/criu-track-written.patch. Another CRIU ignores it.
func TrackWritten(options *rpc.CriuOpts) {
	const field = 1001
	text := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), 1)
	options.ProtoReflect().SetUnknown(text)
}
