package runner

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
)

// RoleCommand returns the command of phosd in one of its roles, which inherits files from
// descriptor 3 on. program is the command line of phosd. The process gets a session of its own:
// signals to phosd's session do not reach it, and CRIU can be found by the session.
func RoleCommand(program []string, role string, files ...*os.File) *exec.Cmd {
	command := exec.Command(program[0], append(slices.Clone(program[1:]), role)...)
	command.Args[0] = "phosd" // for lists of processes, as of ps
	command.Env, command.Dir, command.Stderr = []string{}, "/", os.Stderr
	command.ExtraFiles = files
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command
}
