package phosd

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
)

// CheckImage says whether an image can be restored here.
func (s *service) CheckImage(ctx context.Context, request *api.CheckImageRequest) (*api.CheckImageReply, error) {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := s.daemon.track(caller, request.GetFiles())
	if err != nil {
		return nil, err
	}
	defer counted.done()
	files, err := counted.take(request.GetFiles())
	if err != nil {
		return nil, err
	}
	reply := &api.CheckImageReply{}
	obstacles, decisions, err := s.daemon.checkpoints.CheckImage(ctx, files[0], request, caller)
	if err != nil {
		return nil, err
	}
	for _, d := range decisions {
		reply.Files = append(reply.Files, &api.FileDecision{
			Path: d.Path, Change: string(d.Change), Action: string(d.Action), Reason: d.Reason, Text: d.Text(),
		})
	}
	for _, o := range obstacles {
		reply.Obstacles = append(
			reply.Obstacles,
			&api.Obstacle{Subject: o.Subject, Reason: o.Reason, Remedy: o.Remedy, Harmless: o.Harmless},
		)
	}
	return reply, nil
}

// PreRestore prepares an image for the next restore, or drops a prepared image.
func (s *service) PreRestore(
	request *api.PreRestoreRequest,
	stream grpc.ServerStreamingServer[api.RestoreEvent],
) error {
	ctx := stream.Context()
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return err
	}
	if err := caller.CheckVisible(); err != nil {
		return err
	}
	counted, err := s.daemon.track(caller, request.GetFiles())
	if err != nil {
		return err
	}
	defer counted.done()
	files, err := counted.take(request.GetFiles())
	if err != nil {
		return err
	}
	parts := s.daemon.checkpoints
	if request.GetCancel() {
		return parts.CancelPrepare(files[0], request, caller)
	}
	out := &api.EventQueue[*api.RestoreEvent]{Send: stream.Send}
	prepared, err := parts.Prepare(ctx, files[0], request, caller, func(now ckpt.Step) { reportStep(out, now) })
	if err == nil {
		err = out.Push(loadedMessage(prepared.MemoryBytes, prepared.Took))
	}
	return errors.Join(err, out.Flush())
}
