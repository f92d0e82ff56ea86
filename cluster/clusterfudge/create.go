package clusterfudge

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/archive"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// CreateLaunch creates a launch. One that shall not be queued is answered when it has a place, or
// has none.
func (s *Service) CreateLaunch(ctx context.Context, r *wire.CreateLaunchRequest) (*wire.Launch, error) {
	switch r.GetLaunchType() {
	case wire.LaunchType_LAUNCH_TYPE_JUPYTER_NOTEBOOK:
		return nil, errJupyter
	case wire.LaunchType_LAUNCH_TYPE_WORKSTATION:
		return nil, errWorkstation
	case wire.LaunchType_LAUNCH_TYPE_UNKNOWN, wire.LaunchType_LAUNCH_TYPE_COMMAND:
	}
	spec, err := specOf(r)
	if err != nil {
		return nil, err
	}
	if r.GetGitRepo() != "" && len(r.GetZipFileContents())+len(r.GetZipFileId()) > 0 {
		return nil, api.Invalid("git_repo: the launch has a zip file, too; leave one out")
	}
	return as(ctx, s, func(c client) (*wire.Launch, error) { return c.create(ctx, r, spec) })
}

// maxScript is how much of the calling script is kept, for people.
const maxScript = launch.MaxBytes / 4

// create creates a launch with the code of a request.
func (c client) create(ctx context.Context, r *wire.CreateLaunchRequest, spec launch.Spec) (*wire.Launch, error) {
	code, err := c.code(ctx, r)
	if err != nil {
		return nil, err
	}
	text, err := spec.JSON()
	if err != nil {
		return nil, err
	}
	script := r.GetLaunchScriptBody()
	reply, err := c.launches.Create(ctx, &api.CreateRequest{
		Spec: text, Code: code, Script: []byte(script[:min(len(script), maxScript)]),
	})
	if err != nil {
		return nil, neverFits(err)
	}
	created, err := c.placed(ctx, reply.GetLaunches())
	if created != nil {
		created.ZipId = zipID(code)
	}
	return created, err
}

// code keeps the code of a request in the cluster, and returns its name; nil: it has none.
func (c client) code(ctx context.Context, r *wire.CreateLaunchRequest) (*api.CodeRef, error) {
	if id := r.GetZipFileId(); id != "" {
		ref, err := parseZipID(id)
		if err == nil && len(r.GetZipFileContents()) > 0 {
			err = api.Invalid("zip_file_id: the launch has the content of a zip file, too; leave one out")
		}
		return ref, err
	}
	if len(r.GetZipFileContents()) == 0 {
		return nil, nil
	}
	packed, err := archive.FromZip(ctx, r.GetZipFileContents())
	if err != nil {
		return nil, err
	}
	return archive.Send(ctx, c.launches, packed)
}

// zipID names code for the client: HASH-BYTES.
func zipID(ref *api.CodeRef) string {
	if ref == nil {
		return ""
	}
	return fmt.Sprintf("%x-%d", ref.GetHash(), ref.GetBytes())
}

// parseZipID reads what zipID writes.
func parseZipID(text string) (*api.CodeRef, error) {
	ref := &api.CodeRef{}
	hash, size, _ := strings.Cut(text, "-")
	bytes, err := strconv.ParseUint(size, 10, 64)
	if _, scanErr := fmt.Sscanf(hash, "%x", &ref.Hash); scanErr != nil || err != nil || len(hash) != 64 {
		return nil, api.Invalid(fmt.Sprintf("zip_file_id: %.100q: want the zip_id of another launch", text))
	}
	ref.Bytes = bytes
	return ref, nil
}

// noRoom begins the reason of a launch that was refused because the cluster was busy.
const noRoom = "no room: "

// placed returns a new launch. If it shall not be queued, it first waits until that launch has a
// place or is refused; the error is then the scheduling error that the client knows.
func (c client) placed(ctx context.Context, created []*api.Launch) (*wire.Launch, error) {
	if len(created) != 1 {
		return nil, api.Invalid(fmt.Sprintf("the launch is an array of %d, which this client does not know", len(created)))
	}
	view, err := c.get(ctx, created[0].GetId())
	if err != nil || view.GetQueueingBehaviour().GetQueueLaunch() {
		return view, err
	}
	l, err := c.awaitDecision(ctx, view.GetId())
	if err != nil {
		return nil, err
	}
	if missing, refused := strings.CutPrefix(l.GetReason(), noRoom); refused && l.GetPhase() == string(launch.Ended) {
		return nil, schedulingError("the cluster is busy", strings.Split(missing, "; ")...)
	}
	return c.get(ctx, view.GetId())
}

// awaitDecision waits until a launch is no longer queued.
func (c client) awaitDecision(ctx context.Context, id string) (*api.Launch, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := c.launches.Watch(ctx, &api.ListRequest{Ids: []string{id}, Ended: true})
	if err != nil {
		return nil, err
	}
	for {
		reply, err := changes.Recv()
		if err != nil {
			return nil, err
		}
		for _, l := range reply.GetLaunches() {
			if p := launch.Phase(l.GetPhase()); l.GetId() == id && p != launch.Queued && p != launch.Waiting {
				return l, nil
			}
		}
	}
}

// neverFits returns the scheduling error for a launch that could not run if the cluster were empty,
// and other errors as they are.
func neverFits(err error) error {
	if status.Code(err) == codes.FailedPrecondition {
		return schedulingError(status.Convert(err).Message())
	}
	return err
}

// schedulingError returns the error that the client knows by its text, with the log that it shows.
func schedulingError(why string, log ...string) error {
	if len(log) == 0 {
		log = []string{why}
	}
	text := "failed to schedule launch: " + why + "\nScheduling log:\n" + strings.Join(log, "\n")
	return status.Error(codes.FailedPrecondition, strings.ToValidUTF8(text, string(utf8.RuneError)))
}
