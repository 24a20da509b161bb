// Sends a token once; afterwards a cookie that no script can read stands for it.
const form = document.querySelector("form");
const token = document.getElementById("token");
const problem = document.getElementById("problem");
const button = form.querySelector("button");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  problem.textContent = "";
  try {
    const response = await fetch("api/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: token.value.trim() }),
    });
    if (response.ok) {
      token.value = "";
      location.replace(`./${location.hash}`);
      return;
    }
    const said = (await response.json().catch(() => ({}))).Error ?? `The server answered ${response.status}.`;
    problem.textContent = said[0].toUpperCase() + said.slice(1);
  } catch {
    problem.textContent = "The server cannot be reached.";
  }
  button.disabled = false;
  token.select();
});
button.disabled = false; // without this script the form would send nothing
token.focus();
