package agent

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
)

// codeCache keeps packed directories by their hash.
type codeCache struct {
	dir string
	mu  sync.Mutex
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
	path := filepath.Join(a.code.dir, hex.EncodeToString(ref.GetHash()))
	if info, err := os.Stat(path); err == nil && uint64(info.Size()) == ref.GetBytes() {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // it was used
		return path, nil
	}
	progress("fetching code")
	if err := a.code.download(ctx, client, ref, path); err != nil {
		return "", fmt.Errorf("fetch code: %w", err)
	}
	a.code.shrink(path)
	return path, nil
}

// download gets code from the leader, and checks its hash while it is written.
func (c *codeCache) download(ctx context.Context, client api.AgentsClient, ref *api.CodeRef, path string) error {
	parts, err := client.GetCode(ctx, ref)
	if err != nil {
		return api.FromStatus(err)
	}
	file, err := os.CreateTemp(c.dir, "download-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := messages.ReceiveCode(file, ref, parts.Recv); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// shrink removes code that was not used for longest, but not the given one.
func (c *codeCache) shrink(keep string) {
	for {
		entries, err := os.ReadDir(c.dir)
		if err != nil {
			return
		}
		total, oldest, at := int64(0), "", time.Now()
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				continue
			}
			total += info.Size()
			if path := filepath.Join(c.dir, entry.Name()); path != keep && info.ModTime().Before(at) {
				oldest, at = path, info.ModTime()
			}
		}
		if total <= cacheBytes || oldest == "" || os.Remove(oldest) != nil {
			return
		}
	}
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
