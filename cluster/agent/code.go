package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
)

// codeCache keeps packed directories of launches, as long as there is room.
type codeCache struct {
	*codestore.Store
	mu sync.Mutex
}

// cacheBytes is how much the cache keeps. What was not used for longest goes first.
const cacheBytes = 4 << 30

// fetch returns the path of the packed code of an order; empty if it has none.
func (a *Agent) fetch(ctx context.Context, client api.AgentsClient, order *api.Order, progress func(string)) (string, error) {
	ref := order.GetCode()
	if ref == nil {
		return "", nil
	}
	a.code.mu.Lock() // so that replicas of a launch fetch it once
	defer a.code.mu.Unlock()
	packed, err := a.code.Open(ref)
	if err != nil { // it is not there, or its file is damaged
		progress("fetching code")
		if err = a.code.download(ctx, client, ref); err == nil {
			packed, err = a.code.Open(ref)
		}
	}
	if err != nil {
		return "", fmt.Errorf("fetch code: %w", err)
	}
	return packed.Name(), packed.Close()
}

// download gets code from the leader.
func (c *codeCache) download(ctx context.Context, client api.AgentsClient, ref *api.CodeRef) error {
	parts, err := client.GetCode(ctx, ref)
	if err != nil {
		return api.FromStatus(err)
	}
	if err := c.Receive(ref, parts.Recv); err != nil {
		return err
	}
	return c.Shrink(cacheBytes)
}

// gitTime is how long a clone may take.
const gitTime = 10 * time.Minute

// maxSaid is how much of what git has said is repeated.
const maxSaid = 500

// clone gets a branch or a commit of a repository, as the owner and without asking anything.
func clone(ctx context.Context, dir string, o owner, order *api.Order) error {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	arguments := []string{"clone", "--quiet", "--no-hardlinks"}
	if order.GetBranch() != "" {
		arguments = append(arguments, "--branch", order.GetBranch())
	}
	if order.GetCommit() == "" {
		arguments = append(arguments, "--depth", "1")
	}
	if err := git(ctx, dir, o, append(arguments, "--", order.GetGit(), ".")...); err != nil {
		return err
	}
	if order.GetCommit() == "" {
		return nil
	}
	return git(ctx, dir, o, "checkout", "--quiet", "--detach", order.GetCommit())
}

// git runs git as the owner.
func git(ctx context.Context, dir string, o owner, arguments ...string) error {
	said, err := asOwner(ctx, dir, o, nil, append([]string{"git"}, arguments...)...)
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: not finished after %v", arguments[0], gitTime)
	}
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", arguments[0], err, said)
	}
	return nil
}

// asOwner runs a command as the owner of a launch, in a session of its own, and returns the last of
// what it has said.
func asOwner(ctx context.Context, dir string, o owner, in *os.File, argv ...string) (string, error) {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir, command.WaitDelay = dir, time.Second
	if in != nil {
		command.Stdin = in
	}
	command.Env = []string{
		"HOME=" + o.home, "USER=" + o.name, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
		"GIT_TERMINAL_PROMPT=0", "GIT_SSH_COMMAND=ssh -oBatchMode=yes",
	}
	command.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: o.uid, Gid: o.gid, Groups: o.groups},
	}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	said, err := command.CombinedOutput()
	return string(said[max(0, len(said)-maxSaid):]), err
}
