package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
	"github.com/phos-gpu/phos/internal/words"
)

// defaultPath is where programs are looked for if a process has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// How says where a process starts.
type How struct {
	// Files are its descriptors, beginning with its standard streams.
	Files []uintptr
	// Group is its cgroup. Without one it starts in that of the caller, and as the caller's user.
	Group *procgroup.Group
	// Terminal says that its standard input becomes its controlling terminal.
	Terminal bool
}

// Execute starts a process. The kernel kills it at the end of the calling thread. The error says
// what its owner can do.
func (p *Process) Execute(how How) (pid int, err error) {
	attributes := &syscall.ProcAttr{
		Dir: p.Directory, Env: p.Environment,
		Files: how.Files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: how.Terminal, Pdeathsig: syscall.SIGKILL},
	}
	if how.Group != nil {
		attributes.Sys.Credential = &syscall.Credential{Uid: p.UID, Gid: p.GID, Groups: p.Groups}
		attributes.Sys.UseCgroupFD, attributes.Sys.CgroupFD = true, how.Group.FD()
	}
	var first error
	for _, program := range p.Programs() {
		pid, err = syscall.ForkExec(program, p.Command, attributes)
		if err == nil {
			return pid, nil
		}
		err = p.explain(program, err)
		if first == nil || errors.Is(first, unix.ENOENT) {
			first = err
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOTDIR) {
			break
		}
	}
	return 0, first
}

// Programs returns where the program may be, as the C library's execvp looks for it. Paths where
// certainly is none are left out, unless no other is left.
func (p *Process) Programs() []string {
	name := p.Command[0]
	if strings.Contains(name, "/") {
		return []string{name}
	}
	path := defaultPath
	for _, each := range p.Environment {
		if value, found := strings.CutPrefix(each, "PATH="); found {
			path = value
		}
	}
	var found []string
	for directory := range strings.SplitSeq(path, ":") {
		program := filepath.Join(directory, name)
		if !filepath.IsAbs(program) {
			continue // whatever directory that is
		}
		if _, err := os.Stat(program); !errors.Is(err, os.ErrNotExist) {
			found = append(found, program)
		}
	}
	if len(found) == 0 {
		return []string{name}
	}
	return found
}

// explain says why a program could not be executed. The kernel's number alone does not tell whether
// the directory, the program or its interpreter is meant.
func (p *Process) explain(program string, err error) error {
	shown := words.ClipTo(program, maxShown)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		if problem := p.enter(); problem != nil {
			return problem
		}
		return p.explainFile(program, err)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%s is no program for this machine, and has no #! line: %w", shown, err)
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("the command and the environment are longer than the kernel takes: %w", err)
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("the limit of processes of the attempt, or of user %d, is reached: %w", p.UID, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("become user %d, group %d and execute %s: %w", p.UID, p.GID, shown, err)
	}
	return fmt.Errorf("execute %s: %w", shown, err)
}

// maxShown is how much of a path an error repeats.
const maxShown = 150

// enter returns an error if the user of a process cannot enter its directory.
func (p *Process) enter() error {
	shown := words.ClipTo(p.Directory, maxShown)
	look := func() error {
		_, err := os.Stat(p.Directory + "/.")
		return err
	}
	var err error
	if os.Geteuid() == int(p.UID) {
		err = look()
	} else {
		err = fsuid.Rights{UID: p.UID, GID: p.GID, Groups: p.Groups}.Do(look)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("there is no directory %s on this node: %w", shown, unix.ENOENT)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is not a directory: %w", shown, unix.ENOTDIR)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("user %d may not enter the directory %s: %w", p.UID, shown, unix.EACCES)
	}
	return nil
}

// explainFile says what is wrong with the file of a program.
func (p *Process) explainFile(program string, err error) error {
	shown := words.ClipTo(program, maxShown)
	if !strings.Contains(program, "/") {
		return fmt.Errorf("there is no program %s in the PATH of the process: %w", shown, err)
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(p.Directory, program)
	}
	info, failed := os.Stat(program)
	switch {
	case errors.Is(failed, os.ErrNotExist):
		return fmt.Errorf("there is no program %s on this node: %w", shown, err)
	case failed == nil && info.IsDir():
		return fmt.Errorf("%s is a directory and no program: %w", shown, err)
	case failed == nil && info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable (chmod +x): %w", shown, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("user %d may not execute %s: %w", p.UID, shown, err)
	}
	return fmt.Errorf("the interpreter of %s, which its first line names, is not on this node: %w", shown, err)
}
