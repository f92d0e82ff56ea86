package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/images"
	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/agent/supervisor/trunk"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	daemonapi "github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/words"
)

// errOtherPlace means that this node's agent keeps its state elsewhere than that of an image.
var errOtherPlace = errors.New("the agents of both nodes need the same --state-dir")

// phosd returns the path of phosd's socket.
func (a *Agent) phosd() string {
	if a.config.Phosd != "" {
		return a.config.Phosd
	}
	return daemonapi.DefaultSocket
}

// workOf returns the directory of the working directories of an attempt. Processes that go on from
// an image expect that of the attempt that was saved.
func (a *Agent) workOf(order *api.Order) (string, error) {
	work := a.workDir(keyOf(order.GetAttempt()))
	image := order.GetImage()
	if image == nil {
		return work, nil
	}
	return a.workOfImage(order.GetAttempt().GetLaunch(), image.GetWork())
}

// workOfImage checks the directory of the working directories of an image of a launch.
func (a *Agent) workOfImage(id, work string) (string, error) {
	origin, err := supervisor.ParseKey(filepath.Base(work))
	if err == nil && origin.Launch != id {
		err = errors.New("it is of another launch")
	}
	if err == nil && a.workDir(origin) != work {
		err = errOtherPlace
	}
	if err != nil {
		return "", fmt.Errorf("working directory %.200s of the image: %w", work, err)
	}
	return work, nil
}

// goOn replaces the root of an attempt's processes by one that restores them from their image.
func (a *Agent) goOn(ctx context.Context, spec *supervisor.Spec, o owner, work string, order *api.Order) error {
	image := order.GetImage()
	if image.GetNode() != a.config.Node && len(order.GetImageKey()) > 0 {
		if err := saver.ImportKey(ctx, a.phosd(), "node-"+image.GetNode(), order.GetImageKey()); err != nil {
			return fmt.Errorf("key of node %s: %w", image.GetNode(), err)
		}
	}
	tell := filepath.Join(work, spec.Key.String()+".restored")
	if err := os.WriteFile(tell, nil, 0o600); err != nil {
		return err
	}
	if err := os.Chown(tell, int(o.uid), int(o.gid)); err != nil {
		return err
	}
	dir := image.GetDir()
	if !image.GetShared() { // this node may have a copy
		dir = a.path("images", savedKey(order).String())
	}
	return replaceByRestore(spec, saver.RestoreOrder{
		Socket: a.phosd(), Dir: dir, Generation: image.GetGeneration(), GPUs: order.GetGpus(),
		Had: image.GetGpus(), Tell: tell,
	})
}

// replaceByRestore lets the root of an attempt's processes be restored in place of being started.
func replaceByRestore(spec *supervisor.Spec, order saver.RestoreOrder) error {
	root := &spec.Processes[0]
	if spec.Trunk != nil {
		root, spec.Trunk.Restores = &spec.Trunk.Process, true
		order.Inherited = trunk.Kept(len(spec.Processes))
	}
	command, err := saver.RestoreCommand(order)
	root.Command, root.Environment, root.Directory = command, nil, "/"
	return err
}

// restoredProcess returns a process of a restored attempt; false: it has ended. The children of a
// trunk are told apart by what they were started with.
func restoredProcess(runs *supervisor.Attempt, root proc.Identity, process int) (proc.Identity, bool) {
	spec, err := runs.Spec()
	if err != nil || root == (proc.Identity{}) || spec.Trunk == nil {
		return root, err == nil && root != proc.Identity{}
	}
	children, _ := proc.Children(root.PID) // a trunk that has ended has none
	for _, pid := range children {
		id, err := proc.Of(pid)
		if err != nil {
			continue
		}
		variables, err := id.Environment()
		if err == nil && variables["PHOS_PROCESS"] == strconv.Itoa(process) {
			return id, true
		}
	}
	return proc.Identity{}, false
}

// restoreOf returns what an attempt goes on from, if it does.
func restoreOf(started *supervisor.Attempt) (saver.RestoreOrder, bool) {
	spec, err := started.Spec()
	switch {
	case err != nil:
		return saver.RestoreOrder{}, false
	case spec.Trunk != nil:
		return saver.ParseRestore(spec.Trunk.Command)
	}
	return saver.ParseRestore(spec.Processes[0].Command)
}

// lookTime is the time between two looks at what a restore has told.
const lookTime = 20 * time.Millisecond

// awaitRestored waits until a restore has succeeded or failed, or done is closed.
func awaitRestored(order saver.RestoreOrder, done <-chan struct{}) (saver.Restored, bool) {
	for {
		if told, found := saver.ReadRestored(order.Tell); found {
			return told, true
		}
		select {
		case <-done:
			return saver.ReadRestored(order.Tell)
		case <-time.After(lookTime):
		}
	}
}

// explainRestore says why an attempt has ended that could not be restored.
func (t *attempt) explainRestore(status *supervisor.Status) {
	runs := t.started()
	if runs == nil {
		return
	}
	from, restored := restoreOf(runs)
	if told, found := saver.ReadRestored(from.Tell); restored && found && told.Error != "" {
		for i := range status.Processes {
			status.Processes[i].Exit = &launch.Exit{Process: i, Error: told.Error}
		}
	}
}

// savedKey names the attempt of which an order's image is.
func savedKey(order *api.Order) supervisor.Key {
	image := order.GetImage()
	return supervisor.Key{
		Launch: order.GetAttempt().GetLaunch(), Replica: int(image.GetReplica()), Attempt: int(image.GetAttempt()),
	}
}

// workDirs returns the working directories of an attempt.
func workDirs(work string, count int) (dirs []string) {
	for i := range count {
		dirs = append(dirs, filepath.Join(work, strconv.Itoa(i)))
	}
	return dirs
}

// Lend implements images.Lender: the leader decides.
func (a *Agent) Lend(ctx context.Context, asked *api.MayFetchRequest) (images.Loan, error) {
	leader, err := a.leading()
	if err != nil {
		return images.Loan{}, err
	}
	reply, err := leader.MayFetch(ctx, asked)
	if err != nil {
		return images.Loan{}, api.FromStatus(err)
	}
	of := keyOf(asked.GetAttempt())
	if err := of.Check(); err != nil {
		return images.Loan{}, fmt.Errorf("%w: %w", api.ErrNotPermitted, err)
	}
	o, err := a.lookUp(reply.GetOwner())
	if err != nil {
		return images.Loan{}, fmt.Errorf("%w: %w", api.ErrNotPermitted, err)
	}
	work, err := a.workOfImage(of.Launch, reply.GetWork())
	if err != nil {
		return images.Loan{}, fmt.Errorf("%w: %w", api.ErrNotPermitted, err)
	}
	return images.Loan{As: o.rights(), Order: images.SendOrder{
		Dir: a.path("images", of.String()), Generation: asked.GetGeneration(), Work: workDirs(work, int(reply.GetProcesses())),
	}}, nil
}

// fetchImage fetches an image and its working directories from the node that has them, to start
// from it.
func (a *Agent) fetchImage(ctx context.Context, order *api.Order, o owner, work string, progress func(string)) error {
	from := order.GetImageFrom()
	if from.GetAddress() == "" {
		return fmt.Errorf("image on node %s: %w now", from.GetNode(), images.ErrUnreachable)
	}
	told := func(bytes uint64) {
		progress(fmt.Sprintf("fetching its image from node %s, %s so far", from.GetNode(), words.Bytes(bytes)))
	}
	told(0)
	return a.fetchInto(ctx, images.Want{
		From: from, Of: savedKey(order), Order: images.ReceiveOrder{
			Generation: order.GetImage().GetGeneration(), Work: workDirs(work, len(order.GetProcesses())),
		},
	}, o, told)
}

// fetchInto fetches an image into its directory on this node. Working directories that are there,
// as of an earlier copy, are replaced when all has come.
func (a *Agent) fetchInto(ctx context.Context, want images.Want, o owner, told func(bytes uint64)) error {
	_, missing := os.Stat(a.path("images", want.Of.String()))
	dir, err := a.imageDir(want.Of, o, nil)
	if err != nil {
		return err
	}
	want.As, want.Order.Dir, want.Order.Others = o.rights(), dir, a.otherImages(want.Of)
	work := want.Order.Work
	want.Order.Work = nil
	for _, each := range work {
		want.Order.Work = append(want.Order.Work, each+".new")
	}
	prepare := func() error {
		for _, each := range want.Order.Work {
			if err := makeEmpty(each, o); err != nil {
				return fmt.Errorf("working directory: %w", err)
			}
		}
		return nil
	}
	err = images.Fetcher{Source: a.config.Peers}.Fetch(ctx, want, prepare, told)
	for i, each := range want.Order.Work {
		if err == nil {
			err = exchange(each, work[i])
		}
		a.remove(each)
	}
	if err != nil && missing != nil { // a disk that is full has room again
		a.remove(dir)
	}
	return err
}

// exchange puts a directory in the place of another one, which gets its name, if there is one.
func exchange(from, to string) error {
	if unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE) == nil {
		return nil
	}
	// There is none, or the file system exchanges nothing.
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// errRunsHere is returned for a copy of a launch that runs on this node.
var errRunsHere = errors.New("the launch runs on this node")

// copyImage fetches an image to keep a copy of it.
func (a *Agent) copyImage(ctx context.Context, order *api.CopyOrder) error {
	of := keyOf(order.GetAttempt())
	if err := of.Check(); err != nil {
		return err
	}
	if len(a.attempts.owners(of.Launch)) > 0 {
		return errRunsHere
	}
	o, err := a.lookUp(order.GetOwner())
	if err != nil {
		return err
	}
	work, err := a.workOfImage(of.Launch, order.GetWork())
	if err != nil {
		return err
	}
	return a.fetchInto(ctx, images.Want{
		From: order.GetFrom(), Of: of, Order: images.ReceiveOrder{
			Generation: order.GetGeneration(), Work: workDirs(work, int(order.GetProcesses())), Keep: int(order.GetKeep()),
		},
	}, o, func(uint64) {})
}

// tellCopied tells the leader what has become of a copy.
func (a *Agent) tellCopied(order *api.CopyOrder, err error) {
	at, copied := order.GetAttempt(), &api.Copied{Generation: order.GetGeneration()}
	if err != nil {
		copied.Error = err.Error()
		a.config.Log.Warn("image not copied", "attempt", keyOf(at), "from", order.GetFrom().GetNode(), "error", err)
	}
	a.attempts.send(&api.Report{Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), Copied: copied})
}

// otherImages returns the directories of other images of a launch on this node, which are likely to
// have the same contents.
func (a *Agent) otherImages(of supervisor.Key) (dirs []string) {
	for _, key := range attemptsIn(a.path("images")) {
		if key.Launch == of.Launch && key != of {
			dirs = append(dirs, a.path("images", key.String()))
		}
	}
	return dirs
}

// imageDir returns the image directory of an attempt. Each attempt has its own, so that one that
// was replaced cannot write into that of the next.
func (a *Agent) imageDir(key supervisor.Key, o owner, order *api.CheckpointOrder) (string, error) {
	if shared := order.GetSharedDir(); shared != "" {
		return filepath.Join(shared, key.String()), nil // a save makes it, with the owner's rights
	}
	dir := a.path("images", key.String())
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, os.Chown(dir, int(o.uid), int(o.gid))
}
