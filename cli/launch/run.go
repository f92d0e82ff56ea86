package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/worker/jobfile"
)

// Options say how a program is started.
type Options struct {
	// Self is the path of pos_cli; libphos.so is found from it.
	Self string
	// Name is the job's name; empty: that of pos.yaml.
	Name string
	// GPUs is the list of GPUs that the program sees; empty: CUDA_VISIBLE_DEVICES stays.
	GPUs   string
	Policy Policy
	Quiet  bool
}

// NotStartedError is returned if a command cannot be executed.
type NotStartedError struct {
	Command string
	Err     error
}

func (e *NotStartedError) Error() string {
	err := e.Err
	var named *exec.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	return fmt.Sprintf("start %s: %v", e.Command, err)
}

// Unwrap returns the cause.
func (e *NotStartedError) Unwrap() error { return e.Err }

// Status returns the exit status of shells for this error: 127 if there is no such command, else
// 126.
func (e *NotStartedError) Status() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, os.ErrNotExist) {
		return 127
	}
	return 126
}

// Run replaces this process by the command, under phos. It returns only if that fails. Executing
// the command in place gives it this process's pid, terminal, signals and parent, and its exit
// status needs no translation. The first process of a container runs the command as a child.
func Run(ctx context.Context, to io.Writer, command []string, options Options) error {
	status, err := fetchStatus(ctx, socket())
	if err != nil {
		return err
	}
	found, err := FindLibrary(options.Self)
	if err != nil {
		return err
	}
	environment, err := options.environment(found, os.Environ(), status)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return &NotStartedError{command[0], err}
	}
	if !options.Quiet {
		fmt.Fprintln(to, options.text(environment, status))
	}
	if dropsPreload(path) {
		fmt.Fprintf(
			to,
			"warning: %s is setuid or setgid, so the loader ignores LD_PRELOAD: "+
				"let it start pos_cli run, and not the other way round\n",
			command[0],
		)
	}
	if os.Getpid() == 1 {
		return runAsFirst(path, command, environment)
	}
	return &NotStartedError{command[0], syscall.Exec(path, command, environment)}
}

// fetchStatus asks the phosd at a socket.
func fetchStatus(ctx context.Context, socket string) (*api.StatusReply, error) {
	client, err := api.Dial(socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	reply, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		return nil, api.FromStatus(err)
	}
	return reply, nil
}

// socket returns the socket that libphos.so will use. It reads daemon_addr of pos.yaml first, as
// libphos.so does. An invalid pos.yaml is reported by libphos.so.
func socket() string {
	file, err := jobfile.Load(jobfile.Name)
	address := file.DaemonAddr
	path, isUnix := strings.CutPrefix(address, "unix:")
	path = strings.TrimPrefix(path, "//")
	switch {
	case err != nil || address == "":
		return api.Socket()
	case isUnix:
		return path
	case strings.ContainsAny(address[:1], "/."):
		return address
	}
	return api.Socket() // a loopback address
}

// environment returns the environment of the program.
func (o Options) environment(found Library, own []string, status *api.StatusReply) ([]string, error) {
	environment := found.Environment(own)
	if o.GPUs != "" {
		visible, err := chooseGPUs(o.GPUs, status.GetGpus())
		if err != nil {
			return nil, err
		}
		environment = set(environment, visibleVariable, visible)
	}
	if o.Name == "" && o.Policy.section == nil {
		return environment, nil
	}
	text, err := jobText(lookup(own, jobfile.Variable), o.Name, o.Policy)
	if err != nil {
		return nil, err
	}
	return set(environment, jobfile.Variable, text), nil
}

// text says in one line what the program gets.
func (o Options) text(environment []string, status *api.StatusReply) string {
	visible, limited := "", false
	for _, entry := range environment {
		if value, ok := strings.CutPrefix(entry, visibleVariable+"="); ok {
			visible, limited = value, true
		}
	}
	parts := []string{gpuText(status, visible, limited)}
	if o.Name != "" {
		parts = append([]string{"job " + humanize.Printable(o.Name)}, parts...)
	}
	if text := o.Policy.text(); text != "" {
		parts = append(parts, humanize.Printable(text))
	}
	return "phos: " + strings.Join(parts, ", ")
}

// dropsPreload reports whether the loader ignores LD_PRELOAD for an executable, because it runs
// with another user or group than the caller.
func dropsPreload(path string) bool {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	var info unix.Stat_t
	if unix.Stat(path, &info) != nil {
		return false
	}
	return info.Mode&unix.S_ISUID != 0 && int(info.Uid) != os.Getuid() ||
		info.Mode&unix.S_ISGID != 0 && int(info.Gid) != os.Getgid()
}
