package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/phos-gpu/phos/cluster/api"
)

// maxRequest is the most bytes of a request. The services take less of what is in it.
const maxRequest = 8 << 20

// served are the services that are offered.
var served = map[string]protoreflect.ServiceDescriptor{
	"Launches": api.File_cluster_proto.Services().ByName("Launches"),
	"Cluster":  api.File_cluster_proto.Services().ByName("Cluster"),
}

var errNoMethod = status.Error(codes.Unimplemented, "there is no such request: want POST /v1/Launches/METHOD, "+
	"/v1/Cluster/METHOD or /v1/code")

// find returns a method. Those are not offered that take a stream and have one reply: code has a
// path of its own.
func find(service, method string) (protoreflect.MethodDescriptor, error) {
	s := served[service]
	if s == nil {
		return nil, errNoMethod
	}
	m := s.Methods().ByName(protoreflect.Name(method))
	if m == nil || m.IsStreamingClient() && !m.IsStreamingServer() {
		return nil, errNoMethod
	}
	return m, nil
}

// call makes the request that an HTTP request describes.
func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	method, err := find(r.PathValue("service"), r.PathValue("method"))
	if err != nil {
		refuse(w, r, err)
		return
	}
	requests, err := readRequests(w, r, method)
	if err != nil {
		refuse(w, r, err)
		return
	}
	conn, err := s.connect(r.Context())
	if err != nil {
		writeFault(w, err)
		return
	}
	defer conn.Close()
	c := &exchange{w: w, conn: conn, method: method, path: "/" + string(method.Parent().FullName()) + "/" + string(method.Name())}
	if method.IsStreamingServer() {
		c.stream(withToken(r), requests)
	} else {
		c.once(withToken(r), requests[0])
	}
}

// withToken returns a context by which the services see the token of a request.
func withToken(r *http.Request) context.Context {
	ctx := r.Context()
	for _, text := range r.Header.Values("Authorization") {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", text)
	}
	return ctx
}

// readRequests reads a message, or of a method that takes a stream one of each line. Only JSON is
// read, which no form of a web page can send.
func readRequests(
	w http.ResponseWriter, r *http.Request, of protoreflect.MethodDescriptor,
) (all []proto.Message, err error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, api.Invalid("the request has no JSON: want Content-Type: application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, fmt.Errorf("%w: a request has at most %d bytes", api.ErrTooLarge, maxRequest)
	}
	if err != nil {
		return nil, err
	}
	texts := [][]byte{text}
	if of.IsStreamingClient() {
		texts = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	}
	for _, each := range texts {
		message, err := newMessage(of.Input())
		if err != nil {
			return nil, err
		}
		if err := protojson.Unmarshal(each, message); err != nil {
			return nil, api.Invalid("the request is no " + string(of.Input().Name()) + ": " + err.Error())
		}
		all = append(all, message)
	}
	return all, nil
}

// newMessage returns an empty message of a kind.
func newMessage(kind protoreflect.MessageDescriptor) (proto.Message, error) {
	found, err := protoregistry.GlobalTypes.FindMessageByName(kind.FullName())
	if err != nil {
		return nil, err // never: the program has all of them
	}
	return found.New().Interface(), nil
}

// exchange is a request with its answer.
type exchange struct {
	w      http.ResponseWriter
	conn   *grpc.ClientConn
	method protoreflect.MethodDescriptor
	path   string
	began  bool
}

// once makes a request with one reply.
func (c *exchange) once(ctx context.Context, request proto.Message) {
	reply, err := newMessage(c.method.Output())
	var trailer metadata.MD
	if err == nil {
		err = c.conn.Invoke(ctx, c.path, request, reply, grpc.Trailer(&trailer))
	}
	if err == nil {
		err = c.write(reply)
	}
	if err != nil && !c.began {
		noteLeader(c.w, trailer)
		writeFault(c.w, err)
	}
}

// stream makes a request with any number of replies.
func (c *exchange) stream(ctx context.Context, requests []proto.Message) {
	kind := &grpc.StreamDesc{ServerStreams: true, ClientStreams: c.method.IsStreamingClient()}
	replies, err := c.conn.NewStream(ctx, kind, c.path)
	for _, each := range requests {
		if err == nil {
			err = replies.SendMsg(each)
		}
	}
	if err == nil || errors.Is(err, io.EOF) { // of io.EOF, the answer says why
		err = replies.CloseSend()
	}
	for err == nil {
		var reply proto.Message
		if reply, err = newMessage(c.method.Output()); err == nil {
			err = replies.RecvMsg(reply)
		}
		if err == nil {
			err = c.write(reply)
		}
	}
	switch {
	case errors.Is(err, io.EOF) && !c.began:
		c.begin()
	case errors.Is(err, io.EOF):
	case c.began:
		_, _ = c.w.Write(append(faultOf(err).json(), '\n')) // the client has gone
	default:
		if replies != nil {
			noteLeader(c.w, replies.Trailer())
		}
		writeFault(c.w, err)
	}
}

// begin begins an answer.
func (c *exchange) begin() {
	kind := "application/json"
	if c.method.IsStreamingServer() {
		kind = "application/x-ndjson"
	}
	c.w.Header().Set("Content-Type", kind)
	c.w.WriteHeader(http.StatusOK)
	c.began = true
}

// write writes a reply as a line of JSON.
func (c *exchange) write(reply proto.Message) error {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true, UseProtoNames: true}.Marshal(reply)
	if err != nil {
		return err
	}
	if !c.began {
		c.begin()
	}
	if _, err := c.w.Write(append(text, '\n')); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}
