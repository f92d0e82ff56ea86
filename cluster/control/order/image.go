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
		Pause:  time.Duration(said.GetPauseUs()) * time.Microsecond,
		Copies: slices.Clone(said.GetCopies()),
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
		Copies: i.Copies,
	}
}

// imageFrom says where a node fetches an image from; nil: it need not.
func (m Maker) imageFrom(i *record.Image, node string) *api.ImageSource {
	if i.Shared || slices.Contains(i.Holders(), node) {
		return nil
	}
	from := &api.ImageSource{Node: i.Node}
	for _, holder := range i.Holders() {
		if address, key := m.Images(holder); address != "" && from.GetAddress() == "" {
			from = &api.ImageSource{Node: holder, Address: address, Key: key}
		}
	}
	return from
}

// Copy returns the order by which a node fetches an image to keep it; nil: no node sends it.
func (m Maker) Copy(l *record.Launch, i *record.Image, node string) *api.CopyOrder {
	from := m.imageFrom(i, node)
	if from.GetAddress() == "" {
		return nil
	}
	return &api.CopyOrder{
		Attempt:    &api.Attempt{Launch: l.ID, Replica: uint32(i.Replica), Attempt: uint32(i.Attempt)},
		Generation: i.Generation, Owner: l.Owner, From: from, Work: i.Work,
		Processes: uint32(processesOf(l, i)), Keep: uint32(l.State.Spec.Checkpoint.Generations()),
	}
}

// processesOf returns how many processes an image has.
func processesOf(l *record.Launch, i *record.Image) int {
	return len(l.State.Spec.Jobs[l.State.Replicas[i.Replica].Job].Processes)
}

// MayFetch allows that a node fetches an image from another one that has it; nil: it may not. A
// node may that starts a live replica from it, or is told to keep a copy.
func MayFetch(
	l *record.Launch, from string, asked *api.MayFetchRequest, copies func(*record.Image) bool,
) *api.MayFetchReply {
	number := int(asked.GetAttempt().GetReplica())
	if number >= len(l.State.Replicas) {
		return nil
	}
	r := &l.State.Replicas[number]
	image := l.NewestOf(number, func(i *record.Image) bool {
		return i.Attempt == int(asked.GetAttempt().GetAttempt()) && i.Generation == asked.GetGeneration()
	})
	if image == nil || image.Shared || !slices.Contains(image.Holders(), from) {
		return nil
	}
	if starts := r.Live && r.Node == asked.GetNode() && r.Image == image.Name(); !starts && !copies(image) {
		return nil
	}
	return &api.MayFetchReply{Owner: l.Owner, Work: image.Work, Processes: uint32(processesOf(l, image))}
}
