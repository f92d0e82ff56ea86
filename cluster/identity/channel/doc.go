// Package channel has the settings of TLS by which members of a cluster know each other.
//
//	Server        a controller; clients may show a certificate, and one that is shown must be valid
//	Client        a node with its certificate, or a user without one
//	FirstContact  an agent that joins: it knows the CA's fingerprint from its token, and nothing else
//
// All of them are TLS 1.3 alone. Certificates and trusted CAs come from a Source for each
// handshake, so a process renews its certificate, and follows a change of the CA, without a restart
// and without closing a connection. Sessions are not resumed, because a resumed one would keep the
// trust of before.
//
// A client does not look at the address by which it reaches the controller, which may be that of a
// tunnel. It wants a certificate of the cluster's own CA for a controller
// (authority.Bundle.VerifyController). Only browsers compare addresses.
//
// Read config.go.
package channel
