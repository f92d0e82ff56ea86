package images

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/channel"
)

// Lender decides what other nodes get.
type Lender interface {
	// Lend returns an image that a node asks for. The error is api.ErrNotPermitted or api.ErrNotFound
	// if it may not have it, and another one if it may ask again.
	Lend(context.Context, *api.MayFetchRequest) (Loan, error)
}

// Server answers other nodes.
type Server struct {
	listener net.Listener
	http     *http.Server
	source   channel.Source
	lender   Lender
	turns    chan struct{}
	log      *slog.Logger
}

// Limits of a server.
const (
	// maxSent is how many images are sent at a time. Each takes a processor for TLS.
	maxSent = 4
	// headTime is how long a request may take to say what it wants.
	headTime = 10 * time.Second
	// turnTime is how long a request waits for its turn, before it is told to ask again.
	turnTime = 30 * time.Second
	// idleTime is how long the other end of a connection, or the process that reads files, may do
	// nothing.
	idleTime = time.Minute
)

// Listen begins to listen at an address.
func Listen(address string, source channel.Source, lender Lender, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		listener: tls.NewListener(listener, channel.PeerServer(source, time.Now)), source: source, lender: lender,
		turns: make(chan struct{}, maxSent), log: log,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, s.answer)
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: headTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Port returns the port of the listener.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Serve answers until the context ends. Requests that are being answered are ended with it.
func (s *Server) Serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() }) // nothing is kept
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("images are not served any longer", "error", err)
	}
}

// The request: its path, the header with a question as JSON, and the trailer with the result.
const (
	path           = "/v1/image"
	questionHeader = "Phos-Question"
	resultTrailer  = "Phos-Result"
	resultSent     = "sent"
	resultChanged  = "changed"
)

// question is what a node asks for.
type question struct {
	Launch     string `json:"launch"`
	Replica    uint32 `json:"replica"`
	Attempt    uint32 `json:"attempt"`
	Generation uint64 `json:"generation"`
	// Work means that the image is there, and only the working directories are wanted.
	Work bool `json:"work,omitempty"`
}

// answer answers a request.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	asked, err := s.read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var wants question
	if err := json.Unmarshal([]byte(r.Header.Get(questionHeader)), &wants); err != nil {
		http.Error(w, "the question is not understood", http.StatusBadRequest)
		return
	}
	asked.Attempt = &api.Attempt{Launch: wants.Launch, Replica: wants.Replica, Attempt: wants.Attempt}
	asked.Generation = wants.Generation
	loan, err := s.lender.Lend(r.Context(), asked)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-time.After(turnTime):
		http.Error(w, errBusy.Error(), http.StatusTooManyRequests)
		return
	case <-r.Context().Done():
		return
	}
	if wants.Work {
		loan.Order.Dir = ""
	}
	s.send(w, r, loan, asked)
}

// read returns the part of a request that its connection proves.
func (s *Server) read(r *http.Request) (*api.MayFetchRequest, error) {
	if r.TLS == nil {
		return nil, channel.ErrNotNode
	}
	caller, err := channel.PeerOf(s.source.Bundle().Cluster(), *r.TLS)
	if err != nil {
		return nil, err
	}
	return &api.MayFetchRequest{Node: caller.Name, Key: caller.Key.String()}, nil
}

// statusOf returns the status that tells a node whether to ask again.
func statusOf(err error) int {
	switch {
	case errors.Is(err, api.ErrNotPermitted):
		return http.StatusForbidden
	case errors.Is(err, api.ErrNotFound):
		return http.StatusNotFound
	}
	return http.StatusServiceUnavailable
}

// send sends a loan, and its result as the trailer.
func (s *Server) send(w http.ResponseWriter, r *http.Request, loan Loan, to *api.MayFetchRequest) {
	log := s.log.With("launch", to.GetAttempt().GetLaunch(), "attempt", to.GetAttempt().GetAttempt(), "node", to.GetNode())
	text, err := json.Marshal(loan.Order)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	command := loan.As.Command(r.Context(), SendRole, string(text))
	control := http.NewResponseController(w)
	command.Stdin = &pressed{io.LimitReader(r.Body, maxHashBytes+1), control.SetReadDeadline}
	problems := &said{}
	command.Stderr = problems
	w.Header().Set("Trailer", resultTrailer)
	began := time.Now()
	sent, err := s.copy(w, control, command)
	result := resultSent
	switch {
	case err == nil:
		log.Info("image sent", "bytes", sent, "took", time.Since(began), "said", problems.String())
	case command.ProcessState != nil && command.ProcessState.ExitCode() == exitChanged:
		result = resultChanged
		log.Info("image is sent again", "why", problems.String())
	default:
		result = oneLine(err, problems)
		log.Warn("image not sent", "error", result)
	}
	w.Header().Set(resultTrailer, result)
}

// said keeps the end of what a role has said.
type said struct{ text []byte }

// Write implements io.Writer.
func (s *said) Write(part []byte) (int, error) {
	s.text = append(s.text, part...)
	s.text = append([]byte(nil), s.text[max(0, len(s.text)-maxSaid):]...)
	return len(part), nil
}

// String returns it in one line.
func (s *said) String() string { return strings.Join(strings.Fields(string(s.text)), " ") }

// oneLine describes how a role has failed, in the form of a trailer.
func oneLine(err error, problems *said) string {
	if text := problems.String(); text != "" {
		return text
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// maxSaid is how much of what a role has said is repeated.
const maxSaid = 500

// copy runs a command and sends what it writes.
func (s *Server) copy(w io.Writer, control *http.ResponseController, command *exec.Cmd) (sent int64, err error) {
	out, err := command.StdoutPipe()
	if err != nil {
		return 0, err
	}
	from := io.Reader(out)
	if file, isFile := out.(*os.File); isFile {
		from = &pressed{out, file.SetReadDeadline}
	}
	if err := command.Start(); err != nil {
		return 0, err
	}
	to := &pressing{w, control.SetWriteDeadline}
	sent, copied := io.CopyBuffer(to, from, make([]byte, streamBytes))
	if copied != nil {
		_ = command.Process.Kill() // it would wait for a reader
	}
	return sent, errors.Join(copied, command.Wait())
}

// pressed reads from what may not be idle for long.
type pressed struct {
	from     io.Reader
	deadline func(time.Time) error
}

// Read implements io.Reader.
func (p *pressed) Read(to []byte) (int, error) {
	if err := p.deadline(time.Now().Add(idleTime)); err != nil {
		return 0, err
	}
	count, err := p.from.Read(to)
	if err != nil {
		_ = p.deadline(time.Time{}) // what follows is not read by this
	}
	return count, err
}

// pressing writes to what may not be idle for long.
type pressing struct {
	to       io.Writer
	deadline func(time.Time) error
}

// Write implements io.Writer.
func (p *pressing) Write(part []byte) (int, error) {
	if err := p.deadline(time.Now().Add(idleTime)); err != nil {
		return 0, err
	}
	return p.to.Write(part)
}
