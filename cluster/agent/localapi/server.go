package localapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
)

// Socket is where an agent serves launches, unless it is told another path. Variable is the name
// under which processes get the path.
const (
	Socket   = "/run/phos/agent.sock"
	Variable = "PHOS_AGENT"
)

// Launches are those of a node.
type Launches interface {
	// Await waits until the generation of a launch is above a number, or the context ends.
	Await(ctx context.Context, launch string, above uint32)
	// HasProcesses reports whether a launch has processes of a user on the node.
	HasProcesses(launch string, uid uint32) bool
	// Members asks the leader for the members of a launch.
	Members(ctx context.Context, launch string) (*api.MembersReply, error)
	// KeepTraining keeps what a training says of itself.
	KeepTraining(launch string, status []byte)
	ForgetTraining(launch string)
}

// Limits of requests.
const (
	// maxWait is how long a request may wait for a change, and defaultWait how long it does.
	maxWait     = 5 * time.Minute
	defaultWait = time.Minute
	// leaderTime is how long the leader may take to answer.
	leaderTime = 10 * time.Second
	// sendTime is how long a caller may take to send a request, and to read the answer.
	sendTime       = 10 * time.Second
	maxHeaderBytes = 8 << 10
)

// Server serves the processes of launches.
type Server struct {
	launches Launches
	listener *listener
	http     *http.Server
}

// userKey is the key of a connection's user in a context.
type userKey struct{}

// Listen opens the socket. Serve answers on it.
func Listen(path string, launches Launches, log *slog.Logger) (*Server, error) {
	opened, err := listen(path, log)
	if err != nil {
		return nil, err
	}
	s := &Server{launches: launches, listener: opened}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/launches/{id}", s.members)
	mux.HandleFunc("PUT /v1/launches/{id}/training", s.training)
	s.http = &http.Server{
		Handler: mux, ReadTimeout: sendTime, WriteTimeout: maxWait + leaderTime + sendTime, IdleTimeout: sendTime,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, userKey{}, conn.(*connection).uid)
		},
	}
	return s, nil
}

// Serve answers until the context ends, and closes the socket.
func (s *Server) Serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() }) // the agent ends
	defer stop()
	_ = s.http.Serve(s.listener) // it ends by Close only
}

// Member is a replica that has a place, as programs are told of it.
type Member struct {
	Job     string `json:"job"`
	Replica uint32 `json:"replica"`
	// Rank is its number among those of its job that have a place.
	Rank uint32 `json:"rank"`
	// Attempt grows with each start of the replica.
	Attempt uint32 `json:"attempt"`
	Node    string `json:"node"`
	// Address is that of the node, and Port the one that was reserved for the replica there.
	Address string `json:"address"`
	Port    uint32 `json:"port"`
}

// Members are the members of a launch.
type Members struct {
	Launch     string   `json:"launch"`
	Generation uint32   `json:"generation"`
	Members    []Member `json:"members"`
}

// errUnknown means that a caller has no processes of a launch here.
var errUnknown = errors.New("no launch with this id has processes of yours on this node")

// members answers with the members of a launch. With "after", the answer waits for a higher
// generation, at most for the time "wait".
func (s *Server) members(w http.ResponseWriter, r *http.Request) {
	id, uid := r.PathValue("id"), r.Context().Value(userKey{}).(uint32)
	if uid != 0 && !s.launches.HasProcesses(id, uid) {
		answer(w, http.StatusNotFound, failure{errUnknown.Error()})
		return
	}
	if query := r.URL.Query(); query.Has("after") {
		above, err := strconv.ParseUint(query.Get("after"), 10, 32)
		if err != nil {
			answer(w, http.StatusBadRequest, failure{fmt.Sprintf("after is %q: want a generation", query.Get("after"))})
			return
		}
		wait, err := time.ParseDuration(cmp.Or(query.Get("wait"), defaultWait.String()))
		if err != nil || wait < 0 || wait > maxWait {
			answer(w, http.StatusBadRequest, failure{fmt.Sprintf("wait is %q: want a time such as 30s, at most %v",
				query.Get("wait"), maxWait)})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		s.launches.Await(ctx, id, uint32(above))
		cancel()
	}
	ctx, cancel := context.WithTimeout(r.Context(), leaderTime)
	defer cancel()
	reply, err := s.launches.Members(ctx, id)
	if err != nil {
		answer(w, http.StatusServiceUnavailable, failure{err.Error()})
		return
	}
	answer(w, http.StatusOK, membersOf(id, reply))
}

// failure is the answer to a request that is refused or cannot be answered.
type failure struct {
	Error string `json:"error"`
}

// membersOf converts the members of a message.
func membersOf(id string, reply *api.MembersReply) Members {
	all := Members{Launch: id, Generation: reply.GetGeneration(), Members: []Member{}}
	for _, m := range reply.GetMembers() {
		all.Members = append(all.Members, Member{
			Job: m.GetJob(), Replica: m.GetReplica(), Rank: m.GetRank(), Attempt: m.GetAttempt(), Node: m.GetNode(),
			Address: m.GetAddress(), Port: m.GetPort(),
		})
	}
	return all
}

// answer sends a value as JSON.
func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the caller may be gone
}
