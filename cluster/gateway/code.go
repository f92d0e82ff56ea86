package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/archive"
)

// zipTime is how long a zip file may take to come.
const zipTime = 2 * time.Minute

// code keeps the content of a zip file in the cluster, and answers with its name.
func (s *Server) code(w http.ResponseWriter, r *http.Request) {
	ref, err := s.keep(w, r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	text, err := protojson.Marshal(ref)
	if err != nil {
		writeFault(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client has gone
}

// keep converts a zip file, and sends it to the cluster.
func (s *Server) keep(w http.ResponseWriter, r *http.Request) (*api.CodeRef, error) {
	ctx := withToken(r)
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	launches := api.NewLaunchesClient(conn)
	// Before anything is read: a caller that is not known sends nothing.
	if _, err := launches.FindCode(ctx, &api.CodeRef{}); err != nil {
		return nil, err
	}
	select {
	case s.zips <- struct{}{}:
		defer func() { <-s.zips }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// A client that sends slowly must not hold the slot. It fails only on a connection of another
	// kind.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(zipTime))
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, archive.MaxZip))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, fmt.Errorf("%w: a zip file has at most %d bytes", api.ErrTooLarge, int64(archive.MaxZip))
	}
	if err != nil {
		return nil, err
	}
	packed, err := archive.FromZip(ctx, content)
	if errors.Is(err, archive.ErrZip) {
		return nil, api.Invalid(err.Error())
	}
	if err != nil {
		return nil, err
	}
	return archive.Send(ctx, launches, packed)
}
