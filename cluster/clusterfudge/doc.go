// Package clusterfudge answers the public client of Clusterfudge, so that its users' scripts drive
// a cluster of phos unchanged: the gRPC service of package wire, on a loopback address of a
// controller.
//
// A request is translated to one of package api, and is made as the same caller (package inside),
// so that checks, rights and limits are those of any request. What phos does not have is refused by
// name.
//
//	service.go    the service, and what is refused
//	create.go     requests to launches
//	spec.go       their jobs, processes and resources as a launch.Spec
//	models.go     GPU models, which have a field each on the wire
//	view.go       launches as the client sees them; counts.go: how many replicas are how far
//	details.go    one launch with its processes and logs
//	resources.go  what the cluster has, and what uses it
//	trial.go      the launches for trying a cluster: hello world, and GPU burn
//
// Read service.go first.
package clusterfudge
