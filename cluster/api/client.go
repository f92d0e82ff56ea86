package api

import (
	"context"
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
)

// Patience is how long a Client looks for a controller that leads, before a request fails.
const Patience = 30 * time.Second

// Endpoints say where a cluster is, and as which caller a client speaks to it.
type Endpoints struct {
	// Addresses are those of controllers: HOST:PORT, or the path of a socket on this machine, where
	// the caller is known by its account. Any of them will do.
	Addresses []string
	// TLS has the settings for HOST:PORT; nil: only sockets can be reached.
	TLS *tls.Config
	// Bearer is the value of the Authorization header, which is sent over TLS only.
	Bearer string
	// Patience replaces the constant; 0: the constant.
	Patience time.Duration
}

// Client speaks to the controller that leads, and finds the next one when that changes. Requests
// may be made at the same time.
//
// Errors answer errors.Is with the sentinels of this package. A request that may have been carried
// out already is not repeated unless that does no harm: reads are, and Create with a number of its
// own. A stream that has answered is not begun again; its caller knows where to go on.
type Client struct {
	Launches LaunchesClient
	Cluster  ClusterClient
	router   *router
}

// Connect returns a client. Nothing is sent before the first request.
func Connect(to Endpoints) *Client {
	if to.Patience == 0 {
		to.Patience = Patience
	}
	r := &router{endpoints: to, conns: map[string]*grpc.ClientConn{}, current: to.Addresses[0]}
	return &Client{Launches: NewLaunchesClient(r), Cluster: NewClusterClient(r), router: r}
}

// Close ends all connections.
func (c *Client) Close() { c.router.close() }

// repeatable are the requests that may be made twice. Create is one if it has a number.
var repeatable = map[string]bool{
	Launches_List_FullMethodName: true, Launches_Get_FullMethodName: true, Launches_Why_FullMethodName: true,
	Launches_Watch_FullMethodName: true, Launches_Logs_FullMethodName: true, Launches_Events_FullMethodName: true,
	Launches_FindCode_FullMethodName: true, Launches_Usage_FullMethodName: true,
	Launches_Training_FullMethodName: true,
	Cluster_Status_FullMethodName:    true, Cluster_ListNodes_FullMethodName: true, Cluster_ListUsers_FullMethodName: true,
	Cluster_ListQuotas_FullMethodName: true, Cluster_SetQuota_FullMethodName: true,
}

// mayRepeat reports whether a request does no harm if it is carried out twice.
func mayRepeat(method string, request any) bool {
	if create, ok := request.(*CreateRequest); ok {
		return create.GetRequest() != ""
	}
	return repeatable[method]
}

// Invoke makes a request of one message. It implements grpc.ClientConnInterface.
func (r *router) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	return r.seek(ctx, mayRepeat(method, request), func(ctx context.Context, conn *grpc.ClientConn, a *attempt) error {
		return conn.Invoke(ctx, method, request, reply, append(options, grpc.Trailer(&a.trailer))...)
	})
}

// NewStream begins a stream. It implements grpc.ClientConnInterface. A stream to the cluster is not
// repeated: FindCode, which comes before it, has found the leader.
func (r *router) NewStream(
	ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if !description.ClientStreams {
		return &reader{ctx: ctx, router: r, description: description, method: method, options: options}, nil
	}
	stream, err := r.plain(ctx, description, method, options)
	if err != nil {
		return nil, FromStatus(err)
	}
	return &writer{stream}, nil
}

// plain begins a stream with the controller that the router takes for the leader.
func (r *router) plain(
	ctx context.Context, description *grpc.StreamDesc, method string, options []grpc.CallOption,
) (grpc.ClientStream, error) {
	conn, err := r.conn(r.leader())
	if err != nil {
		return nil, err
	}
	return conn.NewStream(ctx, description, method, options...)
}
