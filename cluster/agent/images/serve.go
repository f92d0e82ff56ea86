package images

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/internal/words"
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
	// idleTime is how long a receiver may take nothing.
	idleTime = 2 * time.Minute
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
	default:
		http.Error(w, ErrBusy.Error(), http.StatusServiceUnavailable)
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
	command.Stdin = http.MaxBytesReader(w, r.Body, maxHashes*int64(len(image.Hash{})))
	var problems bytes.Buffer
	command.Stderr = &problems
	w.Header().Set("Trailer", resultTrailer)
	began := time.Now()
	sent, err := s.copy(w, command)
	result := resultSent
	if err != nil {
		result = oneLine(err, &problems)
		log.Warn("image not sent", "error", result)
	} else {
		log.Info("image sent", "bytes", sent, "took", time.Since(began))
	}
	w.Header().Set(resultTrailer, result)
}

// oneLine describes how a role has failed, in the form of a trailer.
func oneLine(err error, problems *bytes.Buffer) string {
	text := strings.Join(strings.Fields(problems.String()), " ")
	if text == "" {
		text = err.Error()
	}
	return words.Tail(text, maxSaid)
}

// maxSaid is how much of what a role has said is repeated.
const maxSaid = 500

// copy runs a command and sends what it writes.
func (s *Server) copy(w http.ResponseWriter, command *exec.Cmd) (sent int64, err error) {
	out, err := command.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := command.Start(); err != nil {
		return 0, err
	}
	to := &pressing{to: w, control: http.NewResponseController(w)}
	sent, copied := io.CopyBuffer(to, out, make([]byte, streamBytes))
	if copied != nil {
		_ = command.Process.Kill() // it would wait for a reader
	}
	return sent, errors.Join(copied, command.Wait())
}

// pressing writes to a receiver that may not be idle for long.
type pressing struct {
	to      io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (p *pressing) Write(part []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(idleTime)); err != nil {
		return 0, err
	}
	return p.to.Write(part)
}
