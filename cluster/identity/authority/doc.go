// Package authority is the CA of a cluster: it issues the certificates of controllers and nodes,
// and checks them.
//
// Every cluster has a CA of its own. Its certificate is the only thing that members trust, so a
// certificate of a public CA or of another cluster proves nothing here. All keys are ECDSA P-256.
//
//	            issued for                     usage           valid
//	CA          the cluster                    sign            10 years
//	controller  phos://CLUSTER/controller/NAME server, client  90 days
//	node        phos://CLUSTER/node/NAME       client          30 days
//
// Certificates begin an hour before they are issued, so that a clock may be behind by as much.
// RenewAt says when the next one is due: its holder asks again, as itself. A node keeps its key,
// by which the cluster's record knows it: so there is no time at which a crash leaves a key in one
// place and another key in the other.
// There is no list of revoked certificates. A controller compares the key of a node with the record
// of that node (identity.Caller.Key); so a node that was removed is refused at once.
//
// # Where the key is
//
// A Ring is the CA with its key. Its record, Ring.Marshal, is one object of the cluster's store
// that only controllers can read; this package does not say where. SaveRing and LoadRing keep it in
// a file, for a cluster of one controller and for a backup.
//
// # Replacing the CA
//
// A CA is replaced before it ends, or when its key may have been read. During the change members
// trust two CAs: a Bundle holds all that are trusted. Each step is one write of the Ring's record.
//
//  1. Ring.Prepare makes the next CA. It is trusted, but issues nothing yet. Every member gets the
//     new Bundle from a controller that it trusts already: nodes with an answer of the leader,
//     users in the file of package access. Wait until all nodes have it. Ring.Abort goes back.
//  2. Ring.Switch makes the next CA the one that issues; the old key is gone. Nodes and controllers
//     renew their certificates; at the latest at RenewAt they do so by themselves. Tokens for
//     joining that were made before are not accepted any longer: they name the old CA.
//  3. Ring.Finish stops the trust in the old CA. Nodes that have not renewed must join again.
//
// If the old key was stolen, make all three steps at once: nodes join again by a new token, and
// users log in again. Tokens of users stay valid, because the CA does not make them.
//
// Read ring.go, then issue.go and request.go.
package authority
