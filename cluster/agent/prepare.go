package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/localapi"
	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/agent/supervisor/trunk"
	"github.com/phos-gpu/phos/cluster/api"
)

// Errors of orders that this node cannot follow.
var (
	// ErrNoAccount means that the owner of a launch has no account here.
	ErrNoAccount = errors.New("the account does not exist on this node")
	// ErrRoot means that a launch is to run as root, which this node does not allow.
	ErrRoot = errors.New("this node runs no launches as root: its agent needs --allow-root")
)

// owner is the account that processes have.
type owner struct {
	name, home string
	uid, gid   uint32
	groups     []uint32
}

// rights returns the account's rights.
func (o owner) rights() saver.Owner { return saver.Owner{UID: o.uid, GID: o.gid, Groups: o.groups} }

// lookUp returns an account.
func (a *Agent) lookUp(name string) (owner, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return owner{}, fmt.Errorf("%w: %s", ErrNoAccount, name)
	}
	o := owner{name: name, home: found.HomeDir}
	ids, err := found.GroupIds()
	if err != nil {
		return owner{}, fmt.Errorf("groups of %s: %w", name, err)
	}
	for _, text := range append([]string{found.Uid, found.Gid}, ids...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return owner{}, fmt.Errorf("ids of %s: %w", name, err)
		}
		o.groups = append(o.groups, uint32(id))
	}
	o.uid, o.gid, o.groups = o.groups[0], o.groups[1], o.groups[2:]
	if o.uid == 0 && !a.config.AllowRoot {
		return owner{}, ErrRoot
	}
	return o, nil
}

// workDir returns the directory of an attempt's working directories.
func (a *Agent) workDir(key supervisor.Key) string { return a.path("work", key.String()) }

// prepare makes the working directories of an attempt, and returns what its supervisor runs.
func (a *Agent) prepare(
	ctx context.Context, client api.AgentsClient, order *api.Order, progress func(string),
) (supervisor.Spec, error) {
	owner, err := a.lookUp(order.GetOwner())
	if err != nil {
		return supervisor.Spec{}, err
	}
	spec := supervisor.Spec{
		Key: keyOf(order.GetAttempt()), Epoch: int64(order.GetEpoch()),
		Grace:        time.Duration(order.GetGraceMs()) * time.Millisecond,
		CgroupParent: a.cgroups,
	}
	work, err := a.workOf(order)
	if err != nil {
		return spec, err
	}
	a.copier.Leave(spec.Key.Launch) // a copy would write into the same directories
	var source string
	if order.GetImageFrom() != nil {
		err = a.fetchImage(ctx, order, owner, work, progress)
	} else {
		source, err = a.fetch(ctx, client, order, progress)
	}
	if err != nil {
		return spec, err
	}
	for i, process := range order.GetProcesses() {
		dir := filepath.Join(work, strconv.Itoa(i))
		if err := a.fillUnlessKept(ctx, dir, owner, source, order); err != nil {
			return spec, fmt.Errorf("working directory of process %d: %w", i, err)
		}
		spec.Processes = append(spec.Processes, supervisor.Process{
			Command: texts(process.GetCommand()), Environment: a.environment(owner, dir, process),
			Directory: filepath.Join(dir, process.GetDirectory()), UID: owner.uid, GID: owner.gid, Groups: owner.groups,
		})
		spec.Limits.CPUs += process.GetMillicpus()
		spec.Limits.MemoryBytes += process.GetMemoryBytes()
	}
	if order.GetCheckpoint() != nil && len(spec.Processes) > 1 {
		if err := a.addTrunk(&spec, work); err != nil {
			return spec, err
		}
	}
	if order.GetImage() != nil {
		progress("restoring from its image")
		return spec, a.goOn(ctx, &spec, owner, work, order)
	}
	return spec, nil
}

// trunkMemory is added to the memory limit of an attempt that has a trunk.
const trunkMemory = 32 << 20

// addTrunk lets processes be one tree, so that they can be saved. The trunk's program lies beside
// their working directories, which an image needs, too.
func (a *Agent) addTrunk(spec *supervisor.Spec, work string) error {
	path := filepath.Join(work, "trunk")
	if err := a.program.Link(path); err != nil {
		return fmt.Errorf("program %s: %w", path, err)
	}
	if spec.Limits.MemoryBytes > 0 {
		spec.Limits.MemoryBytes += trunkMemory
	}
	of := spec.Processes[0]
	of.Command, of.Environment, of.Directory = []string{path, trunk.Role}, trunkEnvironment, "/"
	spec.Trunk = &supervisor.Trunk{Process: of}
	return nil
}

// trunkEnvironment keeps a trunk small.
var trunkEnvironment = []string{"GOMAXPROCS=1", "GOGC=25", "GOTRACEBACK=single"}

// texts converts words of a message.
func texts(words [][]byte) (all []string) {
	for _, word := range words {
		all = append(all, string(word))
	}
	return all
}

// fillUnlessKept makes a working directory, unless it is that of an image and still there.
func (a *Agent) fillUnlessKept(ctx context.Context, dir string, o owner, packed string, order *api.Order) error {
	if _, err := os.Stat(dir); err == nil && order.GetImage() != nil {
		return nil
	}
	return a.fill(ctx, dir, o, packed, order)
}

// makeEmpty makes an empty directory of an owner, below one that others may pass through.
func makeEmpty(dir string, o owner) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, int(o.uid), int(o.gid))
}

// fill makes a working directory, with the code in it.
func (a *Agent) fill(ctx context.Context, dir string, o owner, packed string, order *api.Order) error {
	if err := makeEmpty(dir, o); err != nil {
		return err
	}
	switch {
	case order.GetGit() != "":
		return clone(ctx, dir, o, order)
	case packed != "":
		return unpackAs(ctx, dir, o, packed)
	}
	return nil
}

// environment returns what a process gets: as at a login, then phos in place of the driver, then
// what the order says.
func (a *Agent) environment(o owner, dir string, process *api.ProcessOrder) []string {
	environment := []string{
		"HOME=" + o.home, "USER=" + o.name, "LOGNAME=" + o.name, "SHELL=/bin/sh", "LANG=C.UTF-8", "PWD=" + dir,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONUNBUFFERED=1",
	}
	environment = append(environment, a.config.Environment...)
	if a.config.Phosd != "" {
		environment = append(environment, "PHOS_SOCKET="+a.config.Phosd)
	}
	if a.config.Socket != "" {
		environment = append(environment, localapi.Variable+"="+a.config.Socket)
	}
	return append(environment, texts(process.GetEnvironment())...)
}
