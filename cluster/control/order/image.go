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

// imageFrom says where a node fetches an image from; nil: it need not.
func (m Maker) imageFrom(i *record.Image, node string) *api.ImageSource {
	if i.Shared || i.Node == node {
		return nil
	}
	return &api.ImageSource{Node: i.Node, Address: m.Images(i.Node)}
}

// MayFetch allows that a node fetches an image from another one, if a live replica there starts
// from it; nil: it may not.
func MayFetch(l *record.Launch, from string, asked *api.MayFetchRequest) *api.MayFetchReply {
	number := int(asked.GetAttempt().GetReplica())
	if number >= len(l.State.Replicas) {
		return nil
	}
	r := &l.State.Replicas[number]
	image := l.Image(r.Image)
	if !r.Live || r.Node != asked.GetNode() || image == nil || image.Node != from || image.Shared {
		return nil
	}
	if image.Attempt != int(asked.GetAttempt().GetAttempt()) || image.Generation != asked.GetGeneration() {
		return nil
	}
	return &api.MayFetchReply{
		Owner: l.Owner, Work: image.Work, Processes: uint32(len(l.State.Spec.Jobs[r.Job].Processes)),
	}
}
