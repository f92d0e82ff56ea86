package order

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/cluster/record"
)

// checkpointOrder says how an agent saves a launch; nil: not at all.
func checkpointOrder(spec *launch.Spec) *api.CheckpointOrder {
	if spec.CheckSavable() != nil {
		return nil
	}
	return &api.CheckpointOrder{
		EveryMs: uint64(time.Duration(spec.Checkpoint.Every).Milliseconds()), Keep: uint32(spec.Checkpoint.Generations()),
		SharedDir: spec.Checkpoint.Directory,
	}
}

// ImageOf converts the image of a report.
func ImageOf(r *api.Report, gpus []int) *record.Image {
	said := r.GetImage()
	if said == nil {
		return nil
	}
	return &record.Image{
		Replica: int(said.GetReplica()), Attempt: int(said.GetAttempt()), Node: said.GetNode(), Shared: said.GetShared(),
		Dir: said.GetDir(), Generation: said.GetGeneration(), Work: said.GetWork(), Key: r.GetImageKey(), GPUs: slices.Clone(gpus),
		At: time.UnixMilli(said.GetUnixMs()).UTC(), Bytes: said.GetBytes(), WrittenBytes: said.GetWrittenBytes(),
		Pause: time.Duration(said.GetPauseUs()) * time.Microsecond,
	}
}

// ImageView converts an image for a message.
func ImageView(i *record.Image) *api.Image {
	if i == nil {
		return nil
	}
	return &api.Image{
		Replica: uint32(i.Replica), Attempt: uint32(i.Attempt), Node: i.Node, Shared: i.Shared, Dir: i.Dir,
		Generation: i.Generation, Work: i.Work, UnixMs: i.At.UnixMilli(), Bytes: i.Bytes, WrittenBytes: i.WrittenBytes,
		PauseUs: uint64(i.Pause.Microseconds()), Gpus: messages.Numbers(i.GPUs),
	}
}
