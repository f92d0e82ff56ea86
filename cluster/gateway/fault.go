package gateway

import (
	"encoding/json"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/cluster/api"
)

// LeaderHeader names the address of the controller that leads, if this one does not.
const LeaderHeader = "Phos-Leader"

// fault is an error as clients get it.
type fault struct {
	Error string `json:"error"`
	// Code is that of gRPC, as its documentation writes it.
	Code string `json:"code"`
}

// json returns the fault as text.
func (f fault) json() []byte {
	text, err := json.Marshal(f)
	if err != nil {
		return []byte("{}") // never: these are two texts
	}
	return text
}

// names are the codes that the services answer with, and their status in HTTP.
var names = map[codes.Code]struct {
	name   string
	status int
}{
	codes.Canceled:           {"CANCELLED", 499},
	codes.InvalidArgument:    {"INVALID_ARGUMENT", http.StatusBadRequest},
	codes.DeadlineExceeded:   {"DEADLINE_EXCEEDED", http.StatusGatewayTimeout},
	codes.NotFound:           {"NOT_FOUND", http.StatusNotFound},
	codes.PermissionDenied:   {"PERMISSION_DENIED", http.StatusForbidden},
	codes.ResourceExhausted:  {"RESOURCE_EXHAUSTED", http.StatusRequestEntityTooLarge},
	codes.FailedPrecondition: {"FAILED_PRECONDITION", http.StatusConflict},
	codes.Unimplemented:      {"UNIMPLEMENTED", http.StatusNotImplemented},
	codes.Unavailable:        {"UNAVAILABLE", http.StatusServiceUnavailable},
	codes.Unauthenticated:    {"UNAUTHENTICATED", http.StatusUnauthorized},
}

// faultOf returns an error as clients get it.
func faultOf(err error) fault {
	s := status.Convert(api.ToStatus(err))
	if row, found := names[s.Code()]; found {
		return fault{s.Message(), row.name}
	}
	return fault{s.Message(), "UNKNOWN"}
}

// writeFault answers with an error.
func writeFault(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if row, found := names[status.Code(api.ToStatus(err))]; found {
		code = row.status
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(faultOf(err).json(), '\n')) // the client has gone
}

// noteLeader tells a client which controller leads.
func noteLeader(w http.ResponseWriter, trailer metadata.MD) {
	for _, address := range trailer.Get(api.LeaderKey) {
		w.Header().Set(LeaderHeader, address)
	}
}
