package verify

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

// Git signs the text of a commit or tag without its signature. In a commit the signature is the header gpgsig, whose further lines
// begin with a space; in a tag it stands at the end. Git knows three forms of it: OpenPGP, SSH, and X.509, which gitsign uses
// (gitsign.go).

// CommitKeys are SSH and OpenPGP keys that sign commits and tags of git.
type CommitKeys struct {
	keys     []ssh.PublicKey
	entities openpgp.EntityList
}

const (
	pgpKeyBegin = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	pgpKeyEnd   = "-----END PGP PUBLIC KEY BLOCK-----"
	pgpSigBegin = "-----BEGIN PGP SIGNATURE-----"
	sshSigBegin = "-----BEGIN SSH SIGNATURE-----"
	cmsSigBegin = "-----BEGIN SIGNED MESSAGE-----"
)

// ParseCommitKeys reads lines of git's allowed_signers file (see ssh-keygen(1)) and OpenPGP public keys in armor. An unknown option
// that may restrict a key is an error.
func ParseCommitKeys(text string) (CommitKeys, error) {
	var s CommitKeys
	for {
		before, rest, ok := strings.Cut(text, pgpKeyBegin)
		if err := s.addLines(before); err != nil {
			return s, err
		}
		if !ok {
			break
		}
		block, after, ok := strings.Cut(rest, pgpKeyEnd)
		if !ok {
			return s, errors.New("an OpenPGP key has no end")
		}
		list, err := openpgp.ReadArmoredKeyRing(strings.NewReader(pgpKeyBegin + block + pgpKeyEnd + "\n"))
		if err != nil {
			return s, errors.New("an OpenPGP key cannot be read")
		}
		s.entities = append(s.entities, list...)
		text = after
	}
	if len(s.keys)+len(s.entities) == 0 {
		return s, errors.New("there is no key")
	}
	return s, nil
}

// addLines reads lines of allowed_signers: PRINCIPAL [OPTIONS] KEY. The principal is for people. Each option can restrict the key, so
// that only the one that is understood is allowed: namespaces="git".
func (s *CommitKeys) addLines(text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		principal, rest, ok := strings.Cut(line, " ")
		if !ok {
			return fmt.Errorf("the line of %q has no key", principal)
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err != nil {
			return fmt.Errorf("the key of %q cannot be read", principal)
		}
		for _, o := range options {
			name, value, _ := strings.Cut(o, "=")
			if !strings.EqualFold(name, "namespaces") {
				return fmt.Errorf("the option %q of %q is not supported", name, principal)
			}
			if strings.Trim(value, `"`) != "git" {
				return fmt.Errorf("the key of %q is for namespaces %s and not for git", principal, value)
			}
		}
		s.keys = append(s.keys, key)
	}
	return nil
}

// Check returns nil if one of the keys has signed the commit, or the annotated tag that named it; tag is nil if none did. Both are
// raw git objects.
func (s CommitKeys) Check(commit, tag []byte, now func() time.Time) error {
	return eachSignature(commit, tag, func(payload, signature []byte) error { return s.verifySignature(payload, signature, now) })
}

// eachSignature checks the signature of the commit, and if that is not accepted, the tag's.
func eachSignature(commit, tag []byte, ask func(payload, signature []byte) error) error {
	payload, signature, err := splitCommit(commit)
	if err == nil {
		err = ask(payload, signature)
	}
	if err != nil && tag != nil {
		if payload, signature := splitTag(tag); ask(payload, signature) == nil {
			return nil
		}
	}
	return err
}

// Commit returns the IDs of the keys and identities that have signed the commit, or the annotated tag that named it; tag is nil if
// none did. Both are raw git objects. If it returns no IDs, the error says why.
func (s Signatories) Commit(commit, tag []byte, now func() time.Time) (ids []string, err error) {
	for _, k := range s.commitKeys {
		if e := k.keys.Check(commit, tag, now); e != nil {
			err = e
			continue
		}
		ids = append(ids, k.id)
	}
	if len(s.identities) > 0 {
		e := eachSignature(commit, tag, func(payload, signature []byte) error {
			certified, e := s.byCertificate(payload, signature)
			ids = append(ids, certified...)
			return e
		})
		err = cmp.Or(e, err)
	}
	if len(ids) > 0 {
		return ids, nil
	}
	return nil, err
}

var errUnsigned = errors.New("it has no signature")

// splitCommit separates the signature from a commit.
func splitCommit(raw []byte) (payload, signature []byte, err error) {
	inside, mine, count := false, false, 0
	header := true
	for line := range bytes.Lines(raw) {
		if header {
			switch {
			case inside && line[0] == ' ':
				if mine {
					signature = append(signature, line[1:]...)
				}
				continue
			case bytes.HasPrefix(line, []byte("gpgsig ")), bytes.HasPrefix(line, []byte("gpgsig-sha256 ")):
				inside, mine = true, count == 0
				count++
				if mine {
					signature = append(signature, line[bytes.IndexByte(line, ' ')+1:]...)
				}
				continue
			}
			inside = false
			header = len(line) > 1
		}
		payload = append(payload, line...)
	}
	switch {
	case count == 0:
		return nil, nil, errUnsigned
	case count > 1:
		return nil, nil, errors.New("it has more than one signature")
	}
	return payload, signature, nil
}

// splitTag separates the signature from the end of a tag.
func splitTag(raw []byte) (payload, signature []byte) {
	for _, begin := range []string{sshSigBegin, pgpSigBegin, cmsSigBegin} {
		if i := bytes.LastIndex(raw, []byte("\n"+begin)); i >= 0 {
			return raw[:i+1], raw[i+1:]
		}
	}
	return raw, nil
}

// verifySignature reports whether one of the signers made the signature.
func (s CommitKeys) verifySignature(payload, signature []byte, now func() time.Time) error {
	switch {
	case bytes.HasPrefix(signature, []byte(sshSigBegin)):
		return s.verifySSH(payload, signature)
	case bytes.HasPrefix(signature, []byte(pgpSigBegin)):
		_, err := openpgp.CheckArmoredDetachedSignature(s.entities, bytes.NewReader(payload), bytes.NewReader(signature), &packet.Config{Time: now})
		if err != nil {
			return errors.New("its OpenPGP signature is not one of the allowed keys', or not of this content")
		}
		return nil
	case bytes.HasPrefix(signature, []byte(cmsSigBegin)):
		return errors.New("it is signed by a certificate; identities are allowed by a policy of the form commit")
	}
	return errUnsigned
}

// sshSignature is the content of an SSH signature, see PROTOCOL.sshsig of OpenSSH.
type sshSignature struct {
	Version   uint32
	Key       []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

const sshMagic = "SSHSIG"

// verifySSH verifies a signature in OpenSSH's form, which is over a text that holds the namespace and the digest of the payload. RSA
// keys must have signed by SHA-2: the format ssh-rsa stands for SHA-1.
func (s CommitKeys) verifySSH(payload, armored []byte) error {
	block, _ := pem.Decode(armored)
	bad := errors.New("its SSH signature cannot be read")
	if block == nil || block.Type != "SSH SIGNATURE" || !bytes.HasPrefix(block.Bytes, []byte(sshMagic)) {
		return bad
	}
	var sig sshSignature
	if err := ssh.Unmarshal(block.Bytes[len(sshMagic):], &sig); err != nil || sig.Version != 1 {
		return bad
	}
	if sig.Namespace != "git" {
		return fmt.Errorf("its SSH signature is for %q and not for git", sig.Namespace)
	}
	var digest []byte
	switch sig.Hash {
	case "sha256":
		d := sha256.Sum256(payload)
		digest = d[:]
	case "sha512":
		d := sha512.Sum512(payload)
		digest = d[:]
	default:
		return bad
	}
	var inner ssh.Signature
	if err := ssh.Unmarshal(sig.Signature, &inner); err != nil || inner.Format == ssh.KeyAlgoRSA {
		return bad
	}
	signed := append([]byte(sshMagic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Digest                    []byte
	}{sig.Namespace, sig.Reserved, sig.Hash, digest})...)
	for _, k := range s.keys {
		if bytes.Equal(k.Marshal(), sig.Key) {
			if err := k.Verify(signed, &inner); err != nil {
				return errors.New("its SSH signature is not of this content")
			}
			return nil
		}
	}
	return errors.New("its SSH key is not one of the allowed ones")
}
