package store

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

type tokenDoc struct {
	servicetoken.Token

	Hash     []byte     `firestore:"hash"` // SHA-256 of the full token
	LastUsed *time.Time `firestore:"last_used"`
}

func tokenToDoc(t servicetoken.Token) tokenDoc {
	return tokenDoc{Token: t, Hash: t.Hash[:], LastUsed: timeOrNull(t.LastUsed)}
}

func readToken(doc fire.Doc) (servicetoken.Token, error) {
	d, err := shape[tokenDoc](doc)
	if err != nil {
		return servicetoken.Token{}, err
	}
	t, ok := d.Token, false
	if t.Hash, ok = hashOf(d.Hash); !ok {
		return servicetoken.Token{}, fmt.Errorf("read %s: hash has %d bytes", doc.ID, len(d.Hash))
	}
	t.ID, t.LastUsed, t.Version = servicetoken.ID(doc.ID), zeroOrTime(d.LastUsed), doc.Updated
	return t, nil
}

func (s *Store) tokensOf(project string) fire.Query {
	return s.tokens().Where("project", "==", project)
}

func (s *Store) tokenRef(id servicetoken.ID) (fire.Ref, error) {
	if !id.Valid() {
		return fire.Ref{}, noToken()
	}
	return s.tokens().Doc(string(id)), nil
}

func noToken() error { return problem.New(problem.NotFound, "The service token does not exist.") }

// CreateToken stores a new service token. The transaction reads and writes the project's document,
// so creations conflict, and a query for other tokens after the read is exact. CreateToken returns
// already_exists if the name is in use, or too_many_tokens.
func (s *Store) CreateToken(ctx context.Context, t servicetoken.Token) error {
	op := "create " + string(t.ID)
	ref, err := s.tokenRef(t.ID)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	of := s.projects().Doc(t.Project)
	return s.transactSerially(ctx, op, of, func(ctx context.Context, tx fire.Tx, b *batch) error {
		if _, err := txGet(tx, of, "project", decode[projectDoc]); err != nil {
			return err
		}
		there, err := find(ctx, s.tokensOf(t.Project), readToken)
		if err != nil {
			return err
		}
		for _, other := range there {
			if other.Name == t.Name {
				return problem.New(problem.AlreadyExists, "A service token with this name already exists. Revoke it first, or use another name.")
			}
		}
		if len(there) >= servicetoken.MaxPerProject {
			return problem.FromCode(problem.TooManyTokens)
		}
		b.Update(of, fire.Fields{"token_at": fire.Now})
		b.Create(ref, tokenToDoc(t))
		s.record(ctx, b, audit.Change{Action: audit.CreateToken, Project: t.Project, Resource: tokenPath(t), New: tokenView(t)})
		return nil
	})
}

// ServiceToken returns a service token.
func (s *Store) ServiceToken(ctx context.Context, id servicetoken.ID) (servicetoken.Token, error) {
	ref, err := s.tokenRef(id)
	if err != nil {
		return servicetoken.Token{}, err
	}
	return get(ctx, ref, "service token", readToken)
}

// Tokens lists a project's service tokens.
func (s *Store) Tokens(ctx context.Context, project string, page Page) ([]servicetoken.Token, string, error) {
	return list(ctx, s.tokensOf(project), page, readToken)
}

// TokensCreatedBy returns all service tokens that a user created, by ID.
func (s *Store) TokensCreatedBy(ctx context.Context, username string) ([]servicetoken.Token, error) {
	if !user.ValidName(username) { // can contain bytes that a query cannot
		return nil, nil
	}
	return find(ctx, s.tokens().Where("created_by", "==", username), readToken)
}

// RevokeToken permanently deletes a service token of a project; its name is available again.
func (s *Store) RevokeToken(ctx context.Context, project string, id servicetoken.ID) error {
	op := "revoke " + string(id)
	ref, err := s.tokenRef(id)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return s.transact(ctx, op, func(ctx context.Context, tx fire.Tx, b *batch) error {
		t, err := txGet(tx, ref, "service token", readToken)
		if err != nil {
			return err
		}
		if t.Project != project {
			return noToken()
		}
		s.revoke(ctx, b, t)
		return nil
	})
}

func (s *Store) revoke(ctx context.Context, b *batch, t servicetoken.Token) {
	b.Delete(s.tokens().Doc(string(t.ID)))
	s.record(ctx, b, audit.Change{Action: audit.RevokeToken, Project: t.Project, Resource: tokenPath(t), Old: tokenView(t)})
}

// ReportTokenLeak revokes a leaked service token, and records where it was found. An unknown or
// revoked token is not an error.
func (s *Store) ReportTokenLeak(ctx context.Context, id servicetoken.ID, l apikey.Leak) (result LeakResult, err error) {
	ref, err := s.tokenRef(id)
	if err != nil {
		return "", err
	}
	err = s.transact(ctx, "report leak of "+string(id), func(ctx context.Context, tx fire.Tx, b *batch) error {
		t, err := txGet(tx, ref, "service token", readToken)
		if problem.Is(err, problem.NotFound) {
			result = LeakUnknown
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case !t.Hash.Equal(l.Secret):
			result = LeakUnknown
			return nil
		case t.Status(l.At) == servicetoken.Expired:
			result = LeakRecorded
		default:
			result = LeakEnded
		}
		b.Delete(ref)
		s.record(ctx, b, audit.Change{
			Action: audit.LeakToken, Project: t.Project, Resource: tokenPath(t), Old: tokenView(t),
			New: audit.Values{"found_at": l.URL, "found_in": l.Source},
		})
		return nil
	})
	return result, err
}

// useTimeout limits the delay of a request by this write.
const useTimeout = time.Second

// UseToken records the last use of a service token. It returns a conflict problem if the token has
// changed since it was read.
func (s *Store) UseToken(ctx context.Context, t servicetoken.Token, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	ref, err := s.tokenRef(t.ID)
	if err != nil {
		return err
	}
	if _, err := ref.Update(ctx, fire.Fields{"last_used": at}, t.Version); err != nil {
		return fmt.Errorf("record use of %s: %w", t.ID, problemOf(err, "service token"))
	}
	return nil
}

const (
	// maxIssues is the number of audit records that KeysIssuedBy reads. A token that rotates 100
	// keys per night creates 5,000 records in 50 days.
	maxIssues  = 5000
	issuesPage = 500
)

// KeysIssuedBy returns the unrevoked keys that a service token created or rotated, by ID, from the
// latest 5,000 audit records.
func (s *Store) KeysIssuedBy(ctx context.Context, t servicetoken.Token) ([]apikey.Key, error) {
	// Two processes wrote the token and the records, by two clocks.
	q := audit.Query{Project: t.Project, From: t.CreatedAt.Add(-sameChange), Actor: t.Actor(), Actions: []audit.Action{audit.CreateKey, audit.RotateKey}}
	issued := map[apikey.ID]bool{}
	page := Page{Size: issuesPage}
	for read := 0; read < maxIssues; read += issuesPage {
		records, next, err := s.Records(ctx, q, page)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			issued[apikey.ID(path.Base(r.Resource))] = true
		}
		if page.Token = next; next == "" {
			break
		}
	}
	return s.unrevoked(ctx, slices.Sorted(maps.Keys(issued)))
}

func (s *Store) unrevoked(ctx context.Context, ids []apikey.ID) ([]apikey.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	var keys []apikey.Key
	for part := range slices.Chunk(ids, issuesPage) {
		refs := make([]fire.Ref, len(part))
		for i, id := range part {
			refs[i] = s.keys().Doc(string(id))
		}
		docs, err := s.db.Get(ctx, refs...)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", problemOf(err, "key"))
		}
		some, err := readAll(existing(docs), readKey)
		if err != nil {
			return nil, err
		}
		keys = append(keys, slices.DeleteFunc(some, func(k apikey.Key) bool { return k.Status == apikey.Revoked })...)
	}
	return keys, nil
}
