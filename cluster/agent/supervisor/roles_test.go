package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// agentRole is an agent: it starts the attempt that its standard input describes, says so, and
// waits until it is killed.
func agentRole(arguments []string) {
	var spec Spec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := Start(context.Background(), arguments[0], spec); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("started")
	if len(arguments) == 1 {
		time.Sleep(time.Hour)
	}
}

// eatRole uses so many MiB of memory, and says so.
func eatRole(arguments []string) {
	mebibytes, _ := strconv.Atoi(arguments[0])
	eaten := make([]byte, mebibytes<<20)
	for i := 0; i < len(eaten); i += 4096 {
		eaten[i] = 1
	}
	fmt.Println("eaten", len(eaten))
}

// pythonAgent is an agent with signals ignored and blocked and files inherited, which ends by
// itself.
func pythonAgent(f *fixture) *exec.Cmd {
	if _, err := exec.LookPath("python3"); err != nil {
		f.Skip(err)
	}
	agent := exec.Command("python3", "-c", `
import os, signal, sys
for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD, 50):
    signal.signal(each, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM, signal.SIGUSR2, signal.SIGINT, 51})
os.set_inheritable(os.open("/etc/passwd", os.O_RDONLY), True)
os.dup2(os.open("/etc/passwd", os.O_RDONLY), 77)
os.umask(0o077)
os.execv(sys.argv[1], [sys.argv[1], "agent", sys.argv[2], "once"])
`, itself(f.T), f.root)
	agent.Stdin = strings.NewReader(f.specJSON())
	return agent
}
