package phosd

import (
	"context"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
)

// openState makes the state directory ready.
func (d *Daemon) openState() (err error) {
	settings := d.options.Config
	d.state, err = statedir.Open(statedir.Options{
		Path: settings.StateDir, MemoryPath: d.dir.Work(), MemoryBytes: uint64(settings.Checkpoint.MemoryBudget),
	})
	if err == nil {
		d.archive = archive.New(d.state, d.log)
	}
	return err
}

// takeFiles are those that a request names. The first must be what the caller may have opened
// himself: it was.
func (d *Daemon) takeFiles(token []byte, actor api.Actor) ([]*os.File, error) {
	files, err := d.desk.Take(token, actor)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: it names no file", api.ErrInvalid)
	}
	return files, nil
}

// CheckImage says whether an image can be restored here.
func (s *service) CheckImage(ctx context.Context, request *api.CheckImageRequest) (*api.CheckImageReply, error) {
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := s.daemon.takeFiles(request.GetFiles(), actor)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	image, err := s.daemon.archive.Open(files[0], request.GetGeneration(), actor)
	if err != nil {
		// What keeps the image from being opened is an answer too.
		return &api.CheckImageReply{Obstacles: []*api.Obstacle{{Subject: "image", Reason: err.Error()}}}, nil
	}
	defer image.Close()
	reply := &api.CheckImageReply{}
	obstacles := s.daemon.machine.Obstacles(ctx, image.Manifest, request.GetNewPids(), actor.Place())
	if !s.daemon.warm.has(image, actor) {
		obstacles = append(obstacles, s.daemon.machine.RoomObstacles(ctx, image.Manifest)...)
	}
	needed, err := image.Needed(s.daemon.options.CPU)
	if err != nil {
		obstacles = append(obstacles, ckpt.Obstacle{Subject: "image", Reason: err.Error()})
	}
	for _, o := range append(obstacles, preflight.Foreign(needed, image.Manifest, actor.Place())...) {
		reply.Obstacles = append(
			reply.Obstacles,
			&api.Obstacle{Subject: o.Subject, Reason: o.Reason, Remedy: o.Remedy, Harmless: o.Harmless},
		)
	}
	return reply, nil
}

// Keys gives, takes and forgets keys.
func (s *service) Keys(ctx context.Context, request *api.KeysRequest) (*api.KeysReply, error) {
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := actor.RequireRoot("see and change keys"); err != nil {
		return nil, err
	}
	state, reply := s.daemon.state, &api.KeysReply{}
	switch act := request.GetAct().(type) {
	case *api.KeysRequest_Export:
		key := state.Key()
		reply.Key = key[:]
	case *api.KeysRequest_Import:
		err = state.Import(act.Import.GetName(), act.Import.GetKey())
		s.daemon.log.Info("key imported", "name", act.Import.GetName(), "error", err)
	case *api.KeysRequest_Remove:
		err = state.Forget(act.Remove)
		s.daemon.log.Info("key forgotten", "name", act.Remove, "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	reply.Names, err = state.Names()
	return reply, err
}
