package gateway

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/api/apitest"
	"github.com/phos-gpu/phos/cluster/archive"
)

// socket is an Inside that connects to a controller of apitest.
type socket string

// Connect implements Inside.
func (s socket) Connect(credentials.AuthInfo) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+string(s), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// world is a gateway before a cluster of apitest.
type world struct {
	*testing.T
	cluster    *apitest.Cluster
	controller *apitest.Controller
	client     *http.Client
	path       string
	grpc       chan net.Conn // connections that the gateway has left to gRPC
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cluster: apitest.New(t), path: filepath.Join(t.TempDir(), "gateway.sock"), grpc: make(chan net.Conn, 1)}
	w.controller = w.cluster.Listen(t)
	s := NewServer(socket(w.controller.Socket), slog.New(slog.DiscardHandler))
	go func() { _ = s.Serve() }() // it ends with the test
	listener, err := net.Listen("unix", w.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = listener.Close(), s.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if !s.Divert(conn, nil) {
				w.grpc <- conn
			}
		}
	}()
	w.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", w.path)
		},
	}}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// post makes a request, and returns its answer.
func (w *world) post(path, kind, body string) (*http.Response, string) {
	w.Helper()
	response, err := w.client.Post("http://localhost"+path, kind, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return response, string(text)
}

// TestRequests makes requests with one reply.
func TestRequests(t *testing.T) {
	w := newWorld(t)
	w.cluster.Add(&api.Launch{Name: "digits"})
	response, text := w.post("/v1/Launches/List", "application/json; charset=utf-8", `{"ended": true}`)
	var reply struct{ Launches []struct{ ID, Name string } }
	if err := json.Unmarshal([]byte(text), &reply); err != nil || response.StatusCode != http.StatusOK ||
		len(reply.Launches) != 1 || reply.Launches[0].Name != "digits" {
		t.Errorf("%s: %s: %v", response.Status, text, err)
	}
}

// TestFaults: errors have the code of gRPC, and say what would be right.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	const kind = "application/json"
	for _, test := range []struct {
		path, kind, body string
		code             string
		status           int
		says             string
	}{
		{"/v1/Launches/Get", kind, `{"id": "l-none"}`, "NOT_FOUND", 404, "l-none"},
		{"/v1/Launches/Get", kind, `{"idd": "l-none"}`, "INVALID_ARGUMENT", 400, "idd"},
		{"/v1/Launches/Get", kind, `{`, "INVALID_ARGUMENT", 400, "GetRequest"},
		{"/v1/Launches/Get", "text/plain", `{}`, "INVALID_ARGUMENT", 400, "application/json"},
		{"/v1/Launches/None", kind, `{}`, "UNIMPLEMENTED", 501, "no such request"},
		{"/v1/Launches/SendCode", kind, `{}`, "UNIMPLEMENTED", 501, "no such request"},
		{"/v1/Agents/Join", kind, `{}`, "UNIMPLEMENTED", 501, "no such request"},
		{"/", kind, `{}`, "UNIMPLEMENTED", 501, "no such request"},
		{"/v1/Launches/Get", kind, `{"id": "` + strings.Repeat("x", maxRequest) + `"}`, "RESOURCE_EXHAUSTED", 413, "at most"},
		{"/v1/Launches/Logs", kind, `{"what": "l-none"}`, "NOT_FOUND", 404, "l-none"},
		{"/v1/code", "application/zip", "no zip", "INVALID_ARGUMENT", 400, "zip"},
		{"/v1/code", "application/zip", strings.Repeat("x", archive.MaxZip+1), "RESOURCE_EXHAUSTED", 413, "at most"},
	} {
		response, text := w.post(test.path, test.kind, test.body)
		var got fault
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Code != test.code ||
			response.StatusCode != test.status || !strings.Contains(got.Error, test.says) {
			t.Errorf("%s %.40s: %s: %.200s: %v", test.path, test.body, response.Status, text, err)
		}
	}
}

// TestRefused: a client that sends all of a request before it reads gets the error, whatever has
// been read of the request, and so does one that never stops.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.controller.Follow("10.0.0.7:7411")
	const endless = 1 << 40
	for _, test := range []struct {
		path, kind string
		bytes      int64
		code       string
	}{
		{"/none", "application/json", maxRequest, "UNIMPLEMENTED"},
		{"/v1/Launches/None", "application/json", maxRequest, "UNIMPLEMENTED"},
		{"/v1/Launches/Get", "text/plain", maxRequest, "INVALID_ARGUMENT"},
		{"/v1/Launches/Get", "application/json", 2 * maxRequest, "RESOURCE_EXHAUSTED"},
		{"/v1/code", "application/zip", archive.MaxZip, "UNAVAILABLE"},
		{"/v1/code", "application/zip", endless, "UNAVAILABLE"},
	} {
		conn, err := net.Dial("unix", w.path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
			test.path, test.kind, test.bytes)
		sent, err := io.Copy(conn, io.LimitReader(zeros{}, test.bytes))
		if whole := test.bytes != endless; whole != (err == nil) || sent > 4*unreadBytes {
			t.Errorf("%s: %d of %d bytes were sent: %v", test.path, sent, test.bytes, err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		var got fault
		if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.Code != test.code {
			t.Errorf("%s: %s: %+v: %v", test.path, response.Status, got, err)
		}
		_ = response.Body.Close()
	}
}

// zeros is a reader without an end.
type zeros struct{}

func (zeros) Read(to []byte) (int, error) {
	clear(to)
	return len(to), nil
}

// TestLeader: a controller that does not lead names the one that does.
func TestLeader(t *testing.T) {
	w := newWorld(t)
	w.controller.Follow("10.0.0.7:7411")
	for _, path := range []string{"/v1/Launches/List", "/v1/Launches/Events"} {
		response, text := w.post(path, "application/json", `{}`)
		if got := response.Header.Get(LeaderHeader); got != "10.0.0.7:7411" || response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s, leader %q: %s", path, response.Status, got, text)
		}
	}
}

// TestStream: the replies of a stream come as they are sent, and its error comes last.
func TestStream(t *testing.T) {
	w := newWorld(t)
	launch := w.cluster.Add(&api.Launch{})
	w.cluster.Start(launch.GetId(), "node1")
	request := strings.NewReader(`{"ids": ["` + launch.GetId() + `"]}`)
	response, err := w.client.Post("http://localhost/v1/Launches/Watch", "application/json", request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"running"`) {
		t.Fatalf("the first line is %q: %v", lines.Text(), lines.Err())
	}
	w.cluster.End(launch.GetId(), 0)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"ended"`) {
		t.Fatalf("the second line is %q: %v", lines.Text(), lines.Err())
	}
	go w.controller.Kill()
	var got fault
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &got); err == nil && got.Code != "" {
			break
		}
	}
	if got.Code != "UNAVAILABLE" {
		t.Errorf("the last line is %q: %v", lines.Text(), lines.Err())
	}
}

// TestExec: of a method that takes a stream, each line is a message.
func TestExec(t *testing.T) {
	w := newWorld(t)
	w.cluster.Add(&api.Launch{Name: "digits"})
	w.cluster.Ends = &api.ExecEnd{Code: 3}
	const start = `{"start": {"what": "digits", "command": ["ZWNobw==", "YQ=="]}}`
	response, text := w.post("/v1/Launches/Exec", "application/json", start+"\n"+`{"input_ended": true}`+"\n")
	if lines := strings.Split(text, "\n"); response.StatusCode != http.StatusOK || len(lines) != 4 ||
		!strings.Contains(lines[1], "ZWNobyBhCg==") || !strings.Contains(lines[2], "3") {
		t.Errorf("%s: %s", response.Status, text)
	}
	for body, says := range map[string]string{
		start + "\n{": "the request is no ExecRequest", "": "the request is no ExecRequest",
		`{"start": {"what": "none"}}`: "no such launch",
	} {
		if response, text := w.post("/v1/Launches/Exec", "application/json", body); response.StatusCode == http.StatusOK || !strings.Contains(text, says) {
			t.Errorf("%q: %s: %s", body, response.Status, text)
		}
	}
}

// TestCode: the content of a zip file is kept, and has the same name when it comes again.
func TestCode(t *testing.T) {
	w := newWorld(t)
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	file, err := z.Create("train.py")
	if err == nil {
		_, err = io.WriteString(file, "print(1)")
	}
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	_, first := w.post("/v1/code", "application/zip", zipped.String())
	seen := w.controller.Seen()
	response, second := w.post("/v1/code", "application/zip", zipped.String())
	if first != second || !strings.Contains(first, `"hash"`) || response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, then %s", response.Status, first, second)
	}
	if got := w.controller.Seen() - seen; got != 2 { // twice FindCode, and no SendCode
		t.Errorf("%d requests were made for code that is known", got)
	}
}

// TestHTTP2: connections of HTTP/2 are left to gRPC, with all their bytes.
func TestHTTP2(t *testing.T) {
	w := newWorld(t)
	conn, err := net.Dial("unix", w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := io.WriteString(conn, preface); err != nil {
		t.Fatal(err)
	}
	left := <-w.grpc
	defer left.Close()
	text := make([]byte, len(preface))
	if _, err := io.ReadFull(left, text); err != nil || string(text) != preface {
		t.Errorf("%q, %v", text, err)
	}
}
