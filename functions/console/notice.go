package console

import (
	"net/http"
	"strconv"
)

// notice is a sentence that tells what has just been done, on the page that follows.
// The browser carries its number there, so that nobody else can put words in.
type notice int

// The notices.
const (
	noticeNone notice = iota
	noticeSignedOut
	noticeSessionEnded
	noticePasswordChanged
	noticePasswordReset
	noticeUserCreated
	noticeProjectCreated
	noticeProjectDeleted
	noticeEnvironmentCreated
	noticeEnvironmentDeleted
	noticeMemberSet
	noticeMemberRemoved
	noticeAppCreated
	noticeAppDeleted
	noticeGateOn
	noticeGateOff
	noticeGitSet
	noticeGitRemoved
	noticeWebhookEnabled
	noticeWebhookRegenerated
	noticeWebhookDisabled
	noticeDeployed
	noticeRolledBack
	noticePromoted
	noticeBuildRequested
	noticePlanCreated
	noticePlanChanged
	noticePlanDeleted
	noticeKeyChanged
	noticeKeyDisabled
	noticeKeyEnabled
	noticeKeyRevoked
	noticeNothingChanged
)

// text is what a notice says; "" of one that does not exist.
func (n notice) text() string {
	texts := map[notice]string{
		noticeSignedOut:          "You are signed out.",
		noticeSessionEnded:       "Your session has ended. Sign in to go on; what was not saved yet was not done.",
		noticePasswordChanged:    "The password is changed, and all of your sessions have ended. Sign in with the new one.",
		noticePasswordReset:      "The password is set, and all sessions of that user have ended.",
		noticeUserCreated:        "The user can sign in now. Projects show once somebody makes them a member.",
		noticeProjectCreated:     "The project is created.",
		noticeProjectDeleted:     "The project is deleted.",
		noticeEnvironmentCreated: "The environment is created.",
		noticeEnvironmentDeleted: "The environment is deleted.",
		noticeMemberSet:          "The member's role is saved.",
		noticeMemberRemoved:      "The member is removed.",
		noticeAppCreated:         "The app is created.",
		noticeAppDeleted:         "The app is deleted.",
		noticeGateOn:             "Require API key is switched on.",
		noticeGateOff:            "Require API key is switched off.",
		noticeGitSet:             "The git source is saved. The next build is from it.",
		noticeGitRemoved:         "The git source is removed. The app keeps running its current image.",
		noticeWebhookEnabled:     "The webhook is enabled. Show its token to set up your pipeline.",
		noticeWebhookRegenerated: "The webhook has a new token. The old one is worth nothing any more.",
		noticeWebhookDisabled:    "The webhook is disabled. Its token is worth nothing any more.",
		noticeDeployed:           "The deployment is recorded and on its way.",
		noticeRolledBack:         "The rollback is recorded and on its way.",
		noticePromoted:           "The promotion is recorded and on its way.",
		noticeBuildRequested:     "The build is recorded and on its way.",
		noticePlanCreated:        "The plan is created.",
		noticePlanChanged:        "The plan is saved.",
		noticePlanDeleted:        "The plan is deleted.",
		noticeKeyChanged:         "The key is saved.",
		noticeKeyDisabled:        "The key is disabled.",
		noticeKeyEnabled:         "The key is enabled again.",
		noticeKeyRevoked:         "The key is revoked for good.",
		noticeNothingChanged:     "Nothing was to change.",
	}
	return texts[n]
}

const (
	noticeCookie  = "__Host-sluice_notice"
	noticeSeconds = 60 // for the page that follows to be asked for
)

// leaveNotice leaves a notice for the next page.
func leaveNotice(w http.ResponseWriter, n notice) {
	if n != noticeNone {
		http.SetCookie(w, noticeOf(strconv.Itoa(int(n)), noticeSeconds))
	}
}

// takeNotice gives the notice that was left, and takes it away.
func takeNotice(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, noticeOf("", -1))
	n, err := strconv.Atoi(c.Value)
	if err != nil {
		return ""
	}
	return notice(n).text()
}

func noticeOf(value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: noticeCookie, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
}
