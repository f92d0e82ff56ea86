// Package renewal keeps the certificate of a node valid: it says when the next one is due, requests
// it, and puts it in place of the present one, on the disk first. It also follows the cluster when
// the CA is replaced: CAs that a trusted controller names become those that are trusted, and a
// certificate of a CA that no longer signs is due at once.
//
// It knows no network: cluster/agent carries the messages. Read node.go.
package renewal
