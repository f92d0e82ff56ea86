package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	daemonapi "github.com/phos-gpu/phos/daemon/api"
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
	origin, err := supervisor.ParseKey(filepath.Base(image.GetWork()))
	if err == nil && origin.Launch != order.GetAttempt().GetLaunch() {
		err = errors.New("it is of another launch")
	}
	if err == nil && a.workDir(origin) != image.GetWork() {
		err = errOtherPlace
	}
	if err != nil {
		return "", fmt.Errorf("working directory %.200s of the image: %w", image.GetWork(), err)
	}
	return image.GetWork(), nil
}

// goOn replaces the process of an attempt by one that restores it from its image.
func (a *Agent) goOn(ctx context.Context, spec *supervisor.Spec, o owner, work string, order *api.Order) error {
	if len(spec.Processes) != 1 {
		return fmt.Errorf("an image of %d processes cannot be restored by this version", len(spec.Processes))
	}
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
	command, err := saver.RestoreCommand(saver.RestoreOrder{
		Socket: a.phosd(), Dir: image.GetDir(), Generation: image.GetGeneration(), Tell: tell,
	})
	spec.Processes[0].Command, spec.Processes[0].Environment, spec.Processes[0].Directory = command, nil, "/"
	return err
}

// restoreOf returns what an attempt goes on from, if it does.
func restoreOf(started *supervisor.Attempt) (saver.RestoreOrder, bool) {
	spec, err := started.Spec()
	if err != nil || len(spec.Processes) != 1 {
		return saver.RestoreOrder{}, false
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
	if told, found := saver.ReadRestored(from.Tell); restored && found && told.Error != "" && len(status.Processes) == 1 {
		status.Processes[0].Exit = &launch.Exit{Error: told.Error}
	}
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
