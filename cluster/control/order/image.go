package order

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/cluster/record"
)

// checkpointOrder says how an agent saves a launch. When replicas are saved in one cut, the leader
// says.
func checkpointOrder(spec *launch.Spec) *api.CheckpointOrder {
	out := &api.CheckpointOrder{Keep: uint32(spec.Checkpoint.Generations()), SharedDir: spec.Checkpoint.Directory}
	if spec.SavedTogether() == 0 {
		out.EveryMs = uint64(time.Duration(spec.Checkpoint.Every).Milliseconds())
	}
	return out
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
	return m.Source(i)
}

// Source says from which node an image is fetched. Without an address, no node sends it now.
func (m Maker) Source(i *record.Image) *api.ImageSource {
	for _, holder := range i.Holders() {
		if address, key := m.Images(holder); address != "" {
			return &api.ImageSource{Node: holder, Address: address, Key: key}
		}
	}
	return &api.ImageSource{Node: i.Node}
}

// Copy returns the order by which a node fetches an image to keep it.
func (m Maker) Copy(l *record.Launch, i *record.Image) *api.CopyOrder {
	return &api.CopyOrder{
		Attempt:    &api.Attempt{Launch: l.ID, Replica: uint32(i.Replica), Attempt: uint32(i.Attempt)},
		Generation: i.Generation, Owner: l.Owner, From: m.Source(i), Work: i.Work,
		Processes: uint32(processesOf(l, i)), Keep: uint32(l.State.Spec.Checkpoint.Generations()),
	}
}

// processesOf returns how many processes an image has.
func processesOf(l *record.Launch, i *record.Image) int {
	return len(l.State.Spec.Jobs[l.State.Replicas[i.Replica].Job].Processes)
}

// Lent returns the image that is asked for, if a node has it on its disk; nil: it has not.
func Lent(l *record.Launch, from string, asked *api.MayFetchRequest) *record.Image {
	at := asked.GetAttempt()
	image := l.Generation(int(at.GetReplica()), int(at.GetAttempt()), asked.GetGeneration())
	if image == nil || image.Shared || !slices.Contains(image.Holders(), from) {
		return nil
	}
	return image
}

// MayFetch allows that a node fetches an image from another one that has it; nil: it may not. A
// node may that starts a live replica from it, or is told to keep a copy.
func MayFetch(
	l *record.Launch, from string, asked *api.MayFetchRequest, copies func(*record.Image) bool,
) *api.MayFetchReply {
	image := Lent(l, from, asked)
	if image == nil || image.Replica >= len(l.State.Replicas) {
		return nil
	}
	r := &l.State.Replicas[image.Replica]
	if starts := r.Live && r.Node == asked.GetNode() && r.Image == image.Name(); !starts && !copies(image) {
		return nil
	}
	return &api.MayFetchReply{Owner: l.Owner, Work: image.Work, Processes: uint32(processesOf(l, image))}
}
